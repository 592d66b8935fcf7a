"""The probe function: reports of hosts, handled by the same code as in settle, with fewer permissions.

Any host can send a report. So this function has a role of its own, which may not request a flip. What a
report reveals is requested by the next focus tick, within a minute.
"""

from typing import Final

from burstwatch.handlers import settle

handler: Final = settle.handler
