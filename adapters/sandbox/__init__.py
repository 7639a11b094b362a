"""Loopback servers that speak the chat platforms' APIs, and one page that shows their chats.

    async with Sandbox() as sandbox:
        bot = sandbox.add_bot("7000000001:sandbox-token", "placet_bot")
        dana = sandbox.add_person(1001, "Dana Reyes", "dana")
        group = sandbox.add_group(-1001234, "Billing", [dana], forum=True, topics={31: "Refunds"})
        world = sandbox.telegram                       # what people do and see: `adapters.sandbox.telegram.World`
        world.start(dana, "a-link-code")               # opens dana's private chat, as a t.me link does
        # python-telegram-bot: base_url(sandbox.telegram_base_url), base_file_url(sandbox.telegram_file_url)
        card = await world.until(lambda: world.chat(1001).last("wants to use"))
        press = world.press(dana, 1001, card.id, label="Allow")
        answer = await world.answer(press)             # Answer(text, alert)
        world.say(dana, -1001234, "no", reply_to=card.id)
        world.fail("editMessageText", retry_after=33)  # faults: fail, drop, delay; mend() ends them
        world.calls_of("sendMessage")                  # Call(method, params, at, status)
        sandbox.agent_said("asked", "to refund 49.00 GBP", ask="run-7", title="Refund")  # the page's agent column
        sandbox.add_action("refund", "Refund a charge", ask_again)                       # and its buttons

`sandbox.slack` and `sandbox.discord` are such worlds too; the docstrings of their modules show how they are used.
`world.skip(16)` lets time pass at once. Private chats share one id with their person; `bot=` says which bot is meant
where there are several. `world.chat(id).messages` has text, entities, buttons, document and edited; the bytes of a
document are `world.content(document)`.
"""

from adapters.sandbox.server import Sandbox

__all__ = ["Sandbox"]
