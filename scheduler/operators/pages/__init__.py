"""What all pages of the commands have in common; each page is one file that needs nothing else.

- frame: fills the templates of a package, which extend templates/base.html
- files: writes a page to a file
- templates: the frame, the style sheet, pictures (parts.html), and the script that searches and sorts a table
"""
