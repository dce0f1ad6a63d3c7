"""What a run leaves behind: series, counters, files, comparisons. Knows no world."""
