"""What all pages of the commands have in common; each page is one file that needs nothing else.

- frame: fills the templates of a package, which extend templates/base.html
- files: writes pages to files, and those of a report in the place of the report before
- templates: the frame, the style sheet, pictures (parts.html), and the script that searches and sorts a table
"""
