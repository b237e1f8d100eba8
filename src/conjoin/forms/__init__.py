"""Pure mathematics: no parameters, no device."""
