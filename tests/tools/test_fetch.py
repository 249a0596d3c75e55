"""`fetch`: what the model gets of a page, and what the policy gets to see."""

import pytest

from mainspring.net.web import WebPage
from mainspring.tools import ToolFailed
from mainspring.tools.fetch import TOOL as FETCH
from mainspring.tools.fetch import page_text
from mainspring.tools.html import html_text
from tests.tools.workshop import Workshop

HTML = """<!doctype html><html><head><title>The  Title</title><style>p{}</style><script>var a = "<p>";</script></head>
<body><nav><a href="/home">Home</a></nav><h2>Part &amp; parcel</h2><p>Some <b>bold</b>
words and <a href="page.html">a link</a>.</p><ul><li>one</li><li>two</li></ul>
<pre>def f():
    return 1</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<img src=x alt="a cat"><noscript>hidden</noscript></body></html>"""


def test_a_page_reads_well_as_text():
    assert html_text(HTML, "https://site.test/dir/") == (
        "# The Title\n\n[Home](https://site.test/home)\n\n## Part & parcel\n\n"
        "Some bold words and [a link](https://site.test/dir/page.html).\n\n- one\n- two\n\n"
        "```\ndef f():\n    return 1\n```\n\n | a | b\n\n | 1 | 2\n\n[image: a cat]"
    )


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<p>a<p>b", ["a", "b"]),
        ("a<script>b", ["a"]),
        ("<a><b></a></b>x", ["x"]),
        ("</p></div>x", ["x"]),
        ("", []),
        ("<li>", ["-"]),
    ],
)
def test_broken_pages_are_read_as_far_as_they_go(html, words):
    assert html_text(html).split() == words


def page(data, media_type, charset=""):
    return WebPage(url="https://a.test/", status=200, media_type=media_type, charset=charset, data=data)


def test_text_is_decoded_as_its_server_says():
    assert page_text(page("grün".encode("cp1252"), "text/plain", "cp1252")) == "grün"
    assert page_text(page("grün".encode(), "application/json")) == "grün"
    assert page_text(page("grün".encode(), "text/plain", "no-such-charset")) == "grün"


def test_what_is_not_text_is_told():
    with pytest.raises(ToolFailed, match="not text"):
        page_text(page(b"\0\1\2", "image/png"))


def test_a_local_address_is_refused(tmp_path):
    shop = Workshop(tmp_path, FETCH)
    assert "not on the public internet" in shop.error("fetch", url="http://127.0.0.1:8080/admin")
    assert "not a web address" in shop.error("fetch", url="file:///etc/passwd")


def test_the_policy_sees_the_host_and_that_no_sandbox_holds_it():
    assert FETCH.effect == "network"
    assert FETCH.hosts(FETCH.arguments("https://Docs.Site.test:8443/x")) == ("docs.site.test",)
    assert FETCH.hosts(FETCH.arguments("nonsense")) == ()
