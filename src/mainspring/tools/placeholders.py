"""Lines that stand for text which their writer left out: "# ... rest unchanged", "// bestehender Code",
"# 其余代码不变". A line counts only when all of its words say so. Pure.
"""

from __future__ import annotations

import re

from mainspring.patterns import lazy_pattern

_ELLIPSIS = lazy_pattern(r"(?:\.\.\.|…)")
_COMMENT = lazy_pattern(r"\s*(?:#|//|--|;|%|/\*|<!--|\{/\*|\(\*|REM\b)+\s*(.*?)\s*(?:\*/\}?|-->|\*\))?\s*")
_BEGUN = lazy_pattern(r"\s*[\[(<{]?\s*(?:\.\.\.|…)\s*\S")
_WORD = lazy_pattern(r"[^\W\d_]+")

_REST = lazy_pattern(
    r"rest|remainder|remaining|restlich\w*|übrig\w*|reste|restante?s?|resto|остальн\w*|оставш\w*|나머지\w*"
)
_OLD = lazy_pattern(
    r"existing|previous|other|bestehend\w*|vorhanden\w*|bisherig\w*|ander\w*|existante?s?|autres?|existentes?"
    r"|otr[oa]s?|outr[oa]s?|esistent[ei]|altr[aeio]|существующ\w*|прежн\w*|друг\w*|기존\w*|다른"
)
_STATE = lazy_pattern(
    r"unchanged|omitted|unverändert\w*|ausgelassen|weggelassen|inchangée?s?|omise?s?|inalterad\w*|omitid\w*|invariat\w*"
    r"|cambios|alterações|modifiche|изменений|생략\w*|동일\w*"
)
_CODE = lazy_pattern(
    r"code|functions?|methods?|class(?:es)?|implementation|logic|imports|lines?|content"
    r"|funktion(?:en)?|methoden?|klassen?|zeilen|inhalt|fonctions?|méthodes?|código|codigo|codice|métodos|funciones|funções"
    r"|metodi|funzioni|код\w*|функци\w*|метод\w*|코드\w*|함수\w*|부분\w*"
)
_BESIDE = lazy_pattern(
    r"the|of|your|this|is|are|remains?|stays?|same|as|before|here|goes|above|below|keep|file|script|module|page|so|and|on"
    r"|all|to|be|der|die|das|des|dem|den|vom|von|bleib(?:t|en)|ist|sind|wie|bisher|zuvor|oben|unten|hier|datei|und"
    r"|les?|la|du|de|est|sont|fichier|ici|comme|avant|el|los|las|del|permanece|sigue|igual|sin|archivo|aquí|d[ao]|os?|no"
    r"|arquivo|sem|il|lo|gli|rimane|resta|come|prima|senza|без|как|раньше|оста[её]тся|здесь|и|не|файл|часть"
    r"|그대로|유지|이하|같음|합니다"
)
_KINDS = (("rest", _REST), ("old", _OLD), ("state", _STATE), ("code", _CODE), ("", _BESIDE))
# Signs of which such a line consists in languages that put no spaces between words, and what it must have.
_SIGNS = lazy_pattern(
    r"[其余他剩現现有原来的代码碼部分内容逻辑函数方法保持不变變省略相同上以下此处與与和前后面一样如文件类这里"
    r"…。，（）() ]+|[残りのコードは変更なしそまま既存以下省略同じ他部分関数ファイルです…。、（）() ]+"
)
_SIGNS_SAY = lazy_pattern(
    r"不变|不變|省略|其余|剩余|现有|現有|原有|同上|一样|相同|変更なし|そのまま|残り|既存|同じ"
)


def placeholder(new: str, old: str) -> str:
    """The first line of a new text that stands for text which was left out, and which the old text does not
    have; empty when there is none."""
    known = {line.strip() for line in old.splitlines()}
    added = (line.strip() for line in new.splitlines())
    return next((line for line in added if line not in known and _stands_for(line)), "")


def _stands_for(line: str) -> bool:
    comment = _COMMENT.fullmatch(line)
    said = comment[1] if comment else line if _BEGUN.match(line) else ""
    if not said:
        return False
    rest = " ".join(_ELLIPSIS.sub(" ", said).strip(" .()[]{}<>").split())
    has_ellipsis = bool(_ELLIPSIS.search(said))
    if not rest:
        return has_ellipsis and comment is not None
    if _SIGNS.fullmatch(rest):
        return has_ellipsis or bool(_SIGNS_SAY.search(rest))
    return _says_so(rest.lower(), has_ellipsis=has_ellipsis)


def _says_so(said: str, *, has_ellipsis: bool) -> bool:
    words = _WORD.findall(said)
    if re.sub(r"[\s,;:.'()\[\]/-]+", "", said) != "".join(words):
        return False  # a number, a path, or code
    kinds = [next((name for name, kind in _KINDS if kind.fullmatch(word)), None) for word in words]
    if None in kinds:
        return False
    if has_ellipsis:
        return any(kinds)
    return "rest" in kinds or "state" in kinds or {"old", "code"} <= {*kinds} or "same as before" in said
