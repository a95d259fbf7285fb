"""The numbers in tests/core/random_test.cpp, from Philox written out again in Python integers.

Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Run: python3 tests/reference/random_reference.py
"""
import math

MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


class Sequence:
    """Counter: 64-bit block index, step, purpose in the top byte xor stream. Key: the seed."""

    def __init__(self, seed, purpose, stream=0, step=0):
        self.key = [seed & MASK, seed >> 32]
        self.tail = [step, (purpose << 24) ^ stream]
        self.words = []
        self.block = 0

    def word(self):
        if not self.words:
            self.words = philox([self.block & MASK, self.block >> 32] + self.tail, self.key)
            self.block += 1
        return self.words.pop(0)

    def uniform(self):
        low = self.word()
        return ((low | self.word() << 32) >> 11) / 2**53

    def normal(self):
        radius = math.sqrt(-2 * math.log(1 - self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())

    def below(self, bound):
        # Of the 2^32 words the (2^32 mod bound) that would make some results likelier are refused:
        # those whose product with the bound has a low half below that remainder (Lemire 2019).
        while True:
            high, low = divmod(self.word() * bound, 1 << 32)
            if low >= (1 << 32) % bound:
                return high

    def shuffled(self, count):
        items = list(range(count))
        for i in range(count - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items


if __name__ == "__main__":
    PI = ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0])
    for counter, key in (([0] * 4, [0] * 2), ([MASK] * 4, [MASK] * 2), PI):
        print("philox", " ".join(f"{w:08x}" for w in philox(counter, key)))
    TEST = 99
    sequence = Sequence(1, TEST)
    print("uniforms", [sequence.uniform().hex() for _ in range(8)])
    sequence = Sequence(1, TEST)
    print("normals", [repr(sequence.normal()) for _ in range(8)])
    sequence = Sequence(1, TEST)
    print("shuffles of 8", [sequence.shuffled(8) for _ in range(8)])
    sequence = Sequence(0x123456789ABCDEF0, 4, stream=77, step=5)
    print("words, other key", [f"{sequence.word():08x}" for _ in range(6)])
    sequence = Sequence(1, TEST)
    print("below(10)", [sequence.below(10) for _ in range(12)])
