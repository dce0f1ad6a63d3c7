"""Ways to look at results: tables and figures. Knows no world and no screen."""
