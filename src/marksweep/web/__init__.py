"""The heap as a page: what fills the window, what is garbage and why, plan → collect → undo.

tiles.py     what is in a heap, one tile each, with its state and the reason
sources.py   the working set, a conversation, the memory: each as the page sees it
heaps.py     the heaps of one store by name, computed once per change
stored.py    opens those heaps
picture.py   tiles as an SVG, for the page or for a standalone file
routes.py    the page and its JSON over HTTP, for `web`, `serve --http` and `proxy`
bearer.py    access control: bearer tokens, from the environment or a file
server.py    `marksweep web` as a process

The page has no build step and loads nothing from elsewhere: page.html, page.css, page.js and
picture.css are served as they are.
"""
