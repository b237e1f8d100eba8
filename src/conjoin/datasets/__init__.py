"""Named datasets: records, search on disk, download, verification."""
