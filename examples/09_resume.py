"""Go on with a session later, also from another process: all that you keep is its id."""

from demo_model import model

import mainspring

replies = model("Noted: 7.", "The number was 7.")
first = mainspring.run("Remember the number 7.", model=replies)
again = mainspring.run("Which number was it?", session=first.session, model=replies)
print(again.text)
