"""Embed it in a web server: each POST is a session. Serve it with `uvicorn 12_starlette:app`."""

from demo_model import model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import mainspring


async def ask(request: Request) -> JSONResponse:
    prompt = (await request.body()).decode()
    reply = await mainspring.run_async(prompt, model=model("It is a fine day."), tools=["read", "find"])
    return JSONResponse({"text": reply.text, "ending": reply.ending, "session": reply.session})


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])

if __name__ == "__main__":
    import asyncio

    import httpx2

    async def main() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://example") as client:
            answer = await client.post("/ask", content="How is the weather?", timeout=300)
        print(answer.status_code, answer.json()["text"])

    asyncio.run(main())
