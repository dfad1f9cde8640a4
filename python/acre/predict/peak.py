# SPDX-License-Identifier: MIT
"""What is live when most is: by role, by stack, and where in the program that is."""
import os
import sysconfig

ORDER = ("parameters", "gradients", "optimizer state", "activations", "temporaries",
         "workspaces")
_LIBRARIES = tuple({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"],
                    sysconfig.get_paths()["stdlib"]})


class Peak:
    """The moment of the most requested bytes of one device."""

    def __init__(self, events, marks, stacks, device):
        self.stacks = stacks
        self.requested = self.position = 0
        roles = self._roles(events, [mark for mark in marks if mark[0] == device])
        self._walk(events)
        self.split = dict.fromkeys(ORDER, 0)
        groups = {}
        for number, stack, size in self._live_at(events):
            self.split[roles.get(number) or self._role(stack)] += size
            total, count = groups.get(stack, (0, 0))
            groups[stack] = (total + size, count + 1)
        self.top = sorted(((size, count, stack) for stack, (size, count) in groups.items()),
                          reverse=True)[:5]
        self.where = self.place(events[self.position][1]) if events else None
        self.roles = roles

    @staticmethod
    def _roles(events, marks):
        """Number of an allocation to its role."""
        found, live = {}, {}
        marks = sorted(marks, key=lambda mark: mark[1])
        number = index = 0
        for position, (action, _, address, _, _) in enumerate(events):
            while index < len(marks) and marks[index][1] <= position:
                if marks[index][2] in live:
                    found[live[marks[index][2]]] = marks[index][3]
                index += 1
            if action == "alloc":
                live[address] = number
                number += 1
            else:
                live.pop(address, None)
        for _, _, address, role in marks[index:]:
            if address in live:
                found[live[address]] = role
        return found

    def _walk(self, events):
        held = 0
        for position, (action, _, _, size, _) in enumerate(events):
            held += size if action == "alloc" else -size
            if held > self.requested:
                self.requested, self.position = held, position

    def _live_at(self, events):
        live, number = {}, 0
        for action, stack, address, size, _ in events[:self.position + 1]:
            if action == "alloc":
                live[address] = (number, stack, size)
                number += 1
            else:
                live.pop(address, None)
        return live.values()

    def _role(self, stack):
        role = self.stacks.frame(stack[0])[1] if stack else ""
        if role in ("workspace", "range"):
            return "workspaces"
        return "temporaries" if role in ("backward", "step") else "activations"

    def frames(self, stack):
        """A stack as texts, the operator first."""
        if not stack:
            return []
        texts = [self.stacks.frame(stack[0])[0]]
        for word in stack[1:]:
            name, file, line = self.stacks.frame(word)
            texts.append(f"{name} ({file}:{line})")
        return texts

    def place(self, stack):
        """The innermost line that is not of a library."""
        for word in stack[1:]:
            name, file, line = self.stacks.frame(word)
            if not file.startswith(_LIBRARIES) and not file.startswith("<"):
                return f"{os.path.relpath(file) if os.path.exists(file) else file}:{line} ({name})"
        return None
