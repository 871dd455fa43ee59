"""Reads an HTML page back, for tests that look at one."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """What is on a page; a tag that is closed out of order is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.tables = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def attributes(self, *names):
        return [about[name] for _, about in self.tags for name in names if name in about]
