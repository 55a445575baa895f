"""A place for the newest thing survives being cleared at any moment."""

import asyncio

from gyrfalcon.pages import Latest


def test_who_waits_goes_on_waiting_if_it_is_cleared_at_once():
    async def example():
        slot = Latest()
        taking = asyncio.create_task(slot.take())
        await asyncio.sleep(0)
        slot.put("gone")
        slot.clear()
        await asyncio.sleep(0.01)
        assert not taking.done()
        assert not slot.waiting
        slot.put("here")
        return await asyncio.wait_for(taking, 20)

    assert asyncio.run(example()) == "here"
