"""Run folders: settings, training to the end, files, export and import."""
