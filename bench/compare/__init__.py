"""Speed and memory, measured side by side on one machine."""
