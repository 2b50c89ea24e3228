// Values as bytes, exactly: doubles as their bits. For results that pass between processes and files, and for keys. The
// bytes of a struct are those of its members in order, whichever they are. Both ends are the same build.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace plumbline::model {

namespace detail {

// Converts to every type, to count the members of a struct.
struct AnyValue {
  template <class T>
  operator T&() const& noexcept;  // NOLINT(google-explicit-constructor)
  template <class T>
  operator T&() const&& noexcept;  // NOLINT(google-explicit-constructor)
};
template <std::size_t>
using AnyValueAt = AnyValue;

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{AnyValueAt<I>{}...}; };
}

inline constexpr std::size_t most_members = 43;

template <class T, std::size_t N = most_members + 1>
constexpr std::size_t members() {
  if constexpr (N == 0 || takes<T>(std::make_index_sequence<N>()))
    return N;
  else
    return members<T, N - 1>();
}

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept OfUnit = requires(T quantity) {
  T{double{quantity.value()}};
}
&&!Scalar<T>;

}  // namespace detail

// Calls use(member, ...) with all members of a struct.
template <class T, class Use>
void with_members(T& value, const Use& use) {
  constexpr std::size_t count = detail::members<std::remove_const_t<T>>();
  static_assert(count > 0 && count <= detail::most_members);
#define PLUMBLINE_MEMBERS(n, ...) \
  if constexpr (count == n) {     \
    auto& [__VA_ARGS__] = value;  \
    use(__VA_ARGS__);             \
  }
  PLUMBLINE_MEMBERS(1, a)
  PLUMBLINE_MEMBERS(2, a, b)
  PLUMBLINE_MEMBERS(3, a, b, c)
  PLUMBLINE_MEMBERS(4, a, b, c, d)
  PLUMBLINE_MEMBERS(5, a, b, c, d, e)
  PLUMBLINE_MEMBERS(6, a, b, c, d, e, f)
  PLUMBLINE_MEMBERS(7, a, b, c, d, e, f, g)
  PLUMBLINE_MEMBERS(8, a, b, c, d, e, f, g, h)
  PLUMBLINE_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  PLUMBLINE_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  PLUMBLINE_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  PLUMBLINE_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  PLUMBLINE_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  PLUMBLINE_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  PLUMBLINE_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  PLUMBLINE_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  PLUMBLINE_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  PLUMBLINE_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  PLUMBLINE_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  PLUMBLINE_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  PLUMBLINE_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  PLUMBLINE_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  PLUMBLINE_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
  PLUMBLINE_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
  PLUMBLINE_MEMBERS(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
  PLUMBLINE_MEMBERS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z)
#define PLUMBLINE_26_MEMBERS a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z
  PLUMBLINE_MEMBERS(27, PLUMBLINE_26_MEMBERS, aa)
  PLUMBLINE_MEMBERS(28, PLUMBLINE_26_MEMBERS, aa, bb)
  PLUMBLINE_MEMBERS(29, PLUMBLINE_26_MEMBERS, aa, bb, cc)
  PLUMBLINE_MEMBERS(30, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd)
  PLUMBLINE_MEMBERS(31, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee)
  PLUMBLINE_MEMBERS(32, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff)
  PLUMBLINE_MEMBERS(33, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg)
  PLUMBLINE_MEMBERS(34, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh)
  PLUMBLINE_MEMBERS(35, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii)
  PLUMBLINE_MEMBERS(36, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj)
  PLUMBLINE_MEMBERS(37, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk)
  PLUMBLINE_MEMBERS(38, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll)
  PLUMBLINE_MEMBERS(39, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm)
  PLUMBLINE_MEMBERS(40, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm, nn)
  PLUMBLINE_MEMBERS(41, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm, nn, oo)
  PLUMBLINE_MEMBERS(42, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm, nn, oo, pp)
  PLUMBLINE_MEMBERS(43, PLUMBLINE_26_MEMBERS, aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm, nn, oo, pp, qq)
#undef PLUMBLINE_26_MEMBERS
#undef PLUMBLINE_MEMBERS
}

class ByteWriter {
 public:
  explicit ByteWriter(std::string& bytes) : bytes_(bytes) {}

  template <class... Values>
  void add(const Values&... values) {
    (one(values), ...);
  }

 private:
  template <class T>
  void one(const T& value) {
    if constexpr (detail::Scalar<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else if constexpr (detail::OfUnit<T>) {
      one(value.value());
    } else {
      with_members(value, [this](const auto&... all) { add(all...); });
    }
  }
  void one(const std::string& text) {
    one(text.size());
    bytes_ += text;
  }
  template <class T>
  void one(const std::optional<T>& value) {
    one(value.has_value());
    if (value) one(*value);
  }
  template <class First, class Second>
  void one(const std::pair<First, Second>& value) {
    add(value.first, value.second);
  }
  template <class T, class E>
  void one(const tl::expected<T, E>& value) {
    one(value.has_value());
    if (value)
      one(*value);
    else
      one(value.error());
  }
  template <class T>
  void one(const std::vector<T>& values) {
    one(values.size());
    for (const T& value : values) one(value);
  }
  template <class T>
  void one(const std::set<T>& values) {
    one(values.size());
    for (const T& value : values) one(value);
  }
  template <class T, std::size_t N>
  void one(const std::array<T, N>& values) {
    for (const T& value : values) one(value);
  }
  template <class Key, class T>
  void one(const std::map<Key, T>& values) {
    one(values.size());
    for (const auto& [key, value] : values) add(key, value);
  }

  std::string& bytes_;
};

template <class... Values>
std::string to_bytes(const Values&... values) {
  std::string bytes;
  ByteWriter(bytes).add(values...);
  return bytes;
}

// Reads what a ByteWriter wrote. After bytes that are none of its, values are unspecified and valid() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class... Values>
  void get(Values&... values) {
    (one(values), ...);
  }
  // Returns whether all bytes were read, and none were missing.
  bool valid() const { return valid_ && bytes_.empty(); }

 private:
  template <class T>
  void one(T& value) {
    if constexpr (detail::Scalar<T>) {
      const std::string_view own = take(sizeof value);
      if (!own.empty()) std::memcpy(&value, own.data(), sizeof value);
    } else if constexpr (detail::OfUnit<T>) {
      double number = 0;
      one(number);
      value = T{number};
    } else {
      with_members(value, [this](auto&... all) { get(all...); });
    }
  }
  void one(std::string& text) { text = take(size()); }
  template <class T>
  void one(std::optional<T>& value) {
    bool known = false;
    one(known);
    value.reset();
    if (known) one(value.emplace());
  }
  template <class First, class Second>
  void one(std::pair<First, Second>& value) {
    get(value.first, value.second);
  }
  template <class T, class E>
  void one(tl::expected<T, E>& value) {
    bool known = false;
    one(known);
    if (known) {
      value = T{};
      one(*value);
    } else {
      E error;
      one(error);
      value = tl::unexpected(std::move(error));
    }
  }
  template <class T>
  void one(std::vector<T>& values) {
    values.clear();
    for (std::size_t left = size(); left > 0 && valid_; --left) one(values.emplace_back());
  }
  template <class T, std::size_t N>
  void one(std::array<T, N>& values) {
    for (T& value : values) one(value);
  }
  template <class Key, class T>
  void one(std::map<Key, T>& values) {
    values.clear();
    for (std::size_t left = size(); left > 0 && valid_; --left) {
      Key key{};
      one(key);
      one(values[key]);
    }
  }

  std::size_t size() {
    std::size_t value = 0;
    one(value);
    return value;
  }
  std::string_view take(std::size_t size) {
    valid_ = valid_ && size <= bytes_.size();
    const std::string_view own = valid_ ? bytes_.substr(0, size) : std::string_view();
    bytes_.remove_prefix(own.size());
    return own;
  }

  std::string_view bytes_;
  bool valid_ = true;
};

// Returns the FNV-1a hash of the bytes after that of bytes before them.
inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t before = 0xcbf29ce484222325ULL) {
  for (const char byte : bytes) before = (before ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  return before;
}

// Returns nothing for bytes that are not of the type.
template <class T>
std::optional<T> from_bytes(std::string_view bytes) {
  std::optional<T> value(std::in_place);
  ByteReader reader(bytes);
  reader.get(*value);
  if (!reader.valid()) value.reset();
  return value;
}

}  // namespace plumbline::model
