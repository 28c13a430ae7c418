"""One garbage collector for everything an agent remembers."""
