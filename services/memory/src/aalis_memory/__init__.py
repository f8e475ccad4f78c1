"""Memory: keeps history, archive and summaries."""
