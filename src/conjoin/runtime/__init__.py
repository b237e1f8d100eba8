"""Services that every layer uses: devices, files, processes, signals, progress."""
