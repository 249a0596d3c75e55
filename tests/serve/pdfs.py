"""PDFs as small as they can be, made by hand."""

from __future__ import annotations


def pdf(*texts: str, size: tuple[int, int] = (595, 842), packed: bytes = b"") -> bytes:
    """One page for each text; with `packed` the first draws what that is when it is unpacked."""
    kids = " ".join(f"{4 + 2 * place} 0 R" for place in range(len(texts)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(texts)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for place, text in enumerate(texts):
        drawn = f"BT /F1 48 Tf 60 700 Td ({text}) Tj ET"
        page = f"/Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] /Contents {5 + 2 * place} 0 R"
        objects += [
            f"<< {page} /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    if packed:
        objects[4] = (
            f"<< /Filter [/ASCIIHexDecode /FlateDecode] /Length {2 * len(packed)} >>\nstream\n{packed.hex()}\nendstream"
        )
    data, places = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return (
        data
        + f"{head}trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n".encode()
    )
