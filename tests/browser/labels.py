"""Labels of the explorer that the browser tests select by. A label that changes in web/src changes here, once."""

from __future__ import annotations

# Ask
ONLY_NEW = "Only new facts"
GUESS_BELOW = "Mark as guess below"
COMPARE_WITH = "Compare with"
MORE_ANSWERS = "Show more answers"
JUDGEMENT = "How likely the fact is"
WHY = "Why"
SUPPORTS = "Supporting facts"
PATHS = "Paths in the graph"


def why(answer: str) -> str:
    """The button that opens the reasons of an answer."""
    return f"Why {answer}?"


def answers_from(run: str) -> str:
    """The region with the answers of a run, if two runs are compared."""
    return f"Answers from {run}"


# Entity
FACTS = "Facts"
MOST_SIMILAR = "Most similar"


def ask_for_more(relation: str) -> str:
    """The link that asks for more facts of a relation."""
    return f"Ask for more: {relation}"


# Map
HIGHLIGHT = "Highlight names"
SELECTED = "Selected entities"
RESET = "Reset"
LASSO = "Lasso"
COLOUR = "Colour"

# Relations
FILTER = "Filter relations"
MRR_FOR_TAILS = "MRR for tails"
MISSING_FACTS = "Facts that may be missing"

# Geometry
LINK_CAMERAS = "Turn together"
RESET_VIEW = "Reset view"
PLAY = "Play the motion"
STOP = "Stop"
TIME = "Time of the motion"
REPETITIONS = "Repetitions"
COORDINATE_LEFT = "Coordinate on the left"
COORDINATE_RIGHT = "Coordinate on the right"
RUN_LEFT = "Run on the left"
SAVE_PICTURE = "Save PNG"
SAVE_DATA = "Save data"
LEGEND = "Legend"
DRAW_AS_MOBIUS = "Draw it as the Möbius map"

# The page that `conjoin figure sphere` writes
FIGURE_PLAY = "Play the flow"
FIGURE_STOP = "Stop"
FIGURE_SAVE = "Save PNG"

# Studies
OUTCOMES = "Models by datasets"
CURVES = "Learning curves"
SIZES = "Size and quality"
AS_TABLE = "Show as table"
STUDY = "Study"


def comparisons_on(dataset: str) -> str:
    """The region with the comparisons on a dataset."""
    return f"Comparisons on {dataset}"


# API
SEND = "Send request"
OPENAPI = "OpenAPI description"
COPY = "Copy"

# Every page
TRY_AGAIN = "Try again"
LIGHT_THEME = "Switch to light theme"
RUN = "Run"
TOKEN = "Token"
CONTINUE = "Continue"
