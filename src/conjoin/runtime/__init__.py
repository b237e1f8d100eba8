"""Services for every layer: devices, files, processes, signals, progress."""
