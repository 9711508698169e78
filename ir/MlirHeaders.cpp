// Only here so that the headers are compiled.
