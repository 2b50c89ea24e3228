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

inline constexpr std::size_t most_members = 50;

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
  if constexpr (count == (n)) {   \
    auto& [__VA_ARGS__] = value;  \
    use(__VA_ARGS__);             \
  }
// Ten counts after a number of tens, which the list names.
#define PLUMBLINE_TEN(t) t##0, t##1, t##2, t##3, t##4, t##5, t##6, t##7, t##8, t##9
#define PLUMBLINE_COUNTS(tens, ...)                                           \
  PLUMBLINE_MEMBERS(tens + 1, __VA_ARGS__ z0)                                 \
  PLUMBLINE_MEMBERS(tens + 2, __VA_ARGS__ z0, z1)                             \
  PLUMBLINE_MEMBERS(tens + 3, __VA_ARGS__ z0, z1, z2)                         \
  PLUMBLINE_MEMBERS(tens + 4, __VA_ARGS__ z0, z1, z2, z3)                     \
  PLUMBLINE_MEMBERS(tens + 5, __VA_ARGS__ z0, z1, z2, z3, z4)                 \
  PLUMBLINE_MEMBERS(tens + 6, __VA_ARGS__ z0, z1, z2, z3, z4, z5)             \
  PLUMBLINE_MEMBERS(tens + 7, __VA_ARGS__ z0, z1, z2, z3, z4, z5, z6)         \
  PLUMBLINE_MEMBERS(tens + 8, __VA_ARGS__ z0, z1, z2, z3, z4, z5, z6, z7)     \
  PLUMBLINE_MEMBERS(tens + 9, __VA_ARGS__ z0, z1, z2, z3, z4, z5, z6, z7, z8) \
  PLUMBLINE_MEMBERS(tens + 10, __VA_ARGS__ PLUMBLINE_TEN(z))
  PLUMBLINE_COUNTS(0, )
  PLUMBLINE_COUNTS(10, PLUMBLINE_TEN(a), )
  PLUMBLINE_COUNTS(20, PLUMBLINE_TEN(a), PLUMBLINE_TEN(b), )
  PLUMBLINE_COUNTS(30, PLUMBLINE_TEN(a), PLUMBLINE_TEN(b), PLUMBLINE_TEN(c), )
  PLUMBLINE_COUNTS(40, PLUMBLINE_TEN(a), PLUMBLINE_TEN(b), PLUMBLINE_TEN(c), PLUMBLINE_TEN(d), )
#undef PLUMBLINE_COUNTS
#undef PLUMBLINE_TEN
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
