"""Text formats in and out: pure, no files and no worlds."""
