"""One script a change; a script that has been released is never edited."""
