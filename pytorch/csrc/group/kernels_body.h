/* SPDX-License-Identifier: MIT */
/* The loops of kernels.cpp, compiled once per instruction set. No include guard: the including
 * file opens a namespace and sets the target before it includes this one. */

struct Sum {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a + b); }
};
struct Product {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a * b); }
};
struct Least {
    template <class T> static T apply(T a, T b) { return b < a || b != b ? b : a; }
};
struct Most {
    template <class T> static T apply(T a, T b) { return b > a || b != b ? b : a; }
};
struct And {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a & b); }
};
struct Or {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a | b); }
};
struct Xor {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a ^ b); }
};

/* How a stored element becomes one that can be computed with, and back. */
template <class T> struct Plain {
    using Stored = T;
    static T load(T value) { return value; }
    static T store(T value) { return value; }
};
struct Brain {
    using Stored = std::uint16_t;
    static float load(std::uint16_t value)
    {
        return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
    }
    static std::uint16_t store(float value)
    {
        std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
        std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        return static_cast<std::uint16_t>(value != value ? 0x7fc0u : rounded);
    }
};
struct Half {
    using Stored = c10::Half;
    static float load(c10::Half value) { return static_cast<float>(value); }
    static c10::Half store(float value) { return static_cast<c10::Half>(value); }
};

template <class Type, class Op>
static void pair_reduce(void *out, const void *a, const void *b, std::size_t count)
{
    using T = typename Type::Stored;
    T *to = static_cast<T*>(out);
    const T *x = static_cast<const T*>(a);
    const T *y = static_cast<const T*>(b);
    /* The output may be one of the inputs, element by element, so no dependence is carried. */
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++)
        to[i] = Type::store(Op::apply(Type::load(x[i]), Type::load(y[i])));
}

template <class Type> static PairFunction pair_arithmetic(Reduce reduce)
{
    switch (reduce) {
    case Reduce::SUM:
    case Reduce::AVG:
        return pair_reduce<Type, Sum>;
    case Reduce::PRODUCT:
        return pair_reduce<Type, Product>;
    default:
        return nullptr;
    }
}

template <class Type> static PairFunction pair_ordered(Reduce reduce)
{
    if (reduce == Reduce::MIN)
        return pair_reduce<Type, Least>;
    if (reduce == Reduce::MAX)
        return pair_reduce<Type, Most>;
    return pair_arithmetic<Type>(reduce);
}

template <class Type> static PairFunction pair_bits(Reduce reduce)
{
    switch (reduce) {
    case Reduce::BAND:
        return pair_reduce<Type, And>;
    case Reduce::BOR:
        return pair_reduce<Type, Or>;
    case Reduce::BXOR:
        return pair_reduce<Type, Xor>;
    default:
        return nullptr;
    }
}

template <class T> static PairFunction pair_integer(Reduce reduce)
{
    PairFunction bits = pair_bits<Plain<T>>(reduce);
    return bits || reduce == Reduce::AVG ? bits : pair_ordered<Plain<T>>(reduce);
}

/* Truth values stay 0 or 1: a sum is "or", a product is "and". */
static PairFunction pair_bool(Reduce reduce)
{
    if (reduce == Reduce::SUM || reduce == Reduce::MAX)
        return pair_bits<Plain<std::uint8_t>>(Reduce::BOR);
    if (reduce == Reduce::PRODUCT || reduce == Reduce::MIN)
        return pair_bits<Plain<std::uint8_t>>(Reduce::BAND);
    return pair_bits<Plain<std::uint8_t>>(reduce);
}

/* The loop for a type and an operation; null where there is none. */
static PairFunction pair_find(Reduce reduce, c10::ScalarType type)
{
    switch (type) {
    case c10::kFloat: return pair_ordered<Plain<float>>(reduce);
    case c10::kDouble: return pair_ordered<Plain<double>>(reduce);
    case c10::kBFloat16: return pair_ordered<Brain>(reduce);
    case c10::kHalf: return pair_ordered<Half>(reduce);
    case c10::kChar: return pair_integer<std::int8_t>(reduce);
    case c10::kByte: return pair_integer<std::uint8_t>(reduce);
    case c10::kShort: return pair_integer<std::int16_t>(reduce);
    case c10::kInt: return pair_integer<std::int32_t>(reduce);
    case c10::kLong: return pair_integer<std::int64_t>(reduce);
    case c10::kUInt16: return pair_integer<std::uint16_t>(reduce);
    case c10::kUInt32: return pair_integer<std::uint32_t>(reduce);
    case c10::kUInt64: return pair_integer<std::uint64_t>(reduce);
    case c10::kBool: return pair_bool(reduce);
    case c10::kComplexFloat: return pair_arithmetic<Plain<c10::complex<float>>>(reduce);
    case c10::kComplexDouble: return pair_arithmetic<Plain<c10::complex<double>>>(reduce);
    default: return nullptr;
    }
}
