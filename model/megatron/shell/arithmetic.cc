#include "model/megatron/shell/arithmetic.h"

#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {
namespace {

using Number = std::optional<std::int64_t>;

Number power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (exponent < 0 || (exponent > 63 && base != 0 && base != 1)) return std::nullopt;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(exponent, 64); ++i)
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  return result;
}

Number combine(std::int64_t left, std::string_view sign, std::int64_t right) {
  std::int64_t result = 0;
  if (sign == "+") return __builtin_add_overflow(left, right, &result) ? Number() : result;
  if (sign == "-") return __builtin_sub_overflow(left, right, &result) ? Number() : result;
  if (sign == "*") return __builtin_mul_overflow(left, right, &result) ? Number() : result;
  if (sign == "**") return power(left, right);
  if (sign == "==") return left == right;
  if (sign == "!=") return left != right;
  if (sign == "<") return left < right;
  if (sign == "<=") return left <= right;
  if (sign == ">") return left > right;
  if (sign == ">=") return left >= right;
  if (sign == "&&") return left != 0 && right != 0;
  if (sign == "||") return left != 0 || right != 0;
  if (right == 0 || right == -1) return std::nullopt;  // -1: the one quotient that overflows
  return sign == "/" ? left / right : left % right;
}

// Signs with two operands, those that bind least first; longer ones before their beginnings.
struct Level {
  std::array<std::string_view, 4> signs;
};
constexpr std::array<Level, 7> levels = {
    {{{"||"}}, {{"&&"}}, {{"==", "!="}}, {{"<=", ">=", "<", ">"}}, {{"+", "-"}}, {{"*", "/", "%"}}, {{"**"}}}};

// A recursive-descent parser.
class Parser {
 public:
  Parser(std::string_view text, const NumberScope& scope) : text_(text), scope_(scope) {}

  Number whole() {
    Number value = expression();
    while (value && take(",")) value = expression();
    return at_end() ? value : std::nullopt;
  }

 private:
  Number expression() {
    if (++depth_ > deepest) return std::nullopt;
    const std::size_t first = at_;
    Number value = assignment();
    if (!value && at_ == first) value = choice();
    --depth_;
    return value;
  }

  // NAME = ..., NAME += ...; leaves the position where it is for anything else.
  Number assignment() {
    const std::size_t first = at_;
    const std::string_view name = read_name();
    for (const std::string_view sign : {"+=", "-=", "*=", "/=", "%=", "="}) {
      if (name.empty() || (sign == "=" && ahead("==")) || !take(sign)) continue;
      Number value = expression();
      if (value && sign != "=") {
        const Number before = number_of(name);
        value = before ? combine(*before, sign.substr(0, 1), *value) : std::nullopt;
      }
      if (value && dead_ == 0) scope_.assign(name, *value);
      return value;
    }
    at_ = first;
    return std::nullopt;
  }

  Number choice() {
    const Number condition = operation(0);
    if (!condition || !take("?")) return condition;
    const Number yes = dead(*condition == 0, [this] { return expression(); });
    if (!take(":")) return std::nullopt;
    const Number no = dead(*condition != 0, [this] { return expression(); });
    return *condition != 0 ? yes : no;
  }

  // Reads a part whose assignments do not count where it is not reached.
  template <class Part>
  Number dead(bool unreached, const Part& part) {
    dead_ += unreached ? 1 : 0;
    const Number value = part();
    dead_ -= unreached ? 1 : 0;
    return value;
  }

  Number operation(std::size_t level) {
    if (level == levels.size()) return atom();
    Number value = operation(level + 1);
    while (value) {
      const std::string_view sign = sign_of(level);
      if (sign.empty()) break;
      const bool unreached = (sign == "&&" && *value == 0) || (sign == "||" && *value != 0);
      const Number next = dead(unreached, [&] { return operation(sign == "**" ? level : level + 1); });
      value = next ? combine(*value, sign, *next) : std::nullopt;
    }
    return value;
  }

  std::string_view sign_of(std::size_t level) {
    for (const std::string_view sign : levels[level].signs) {
      if (sign.empty() || (sign == "*" && ahead("**")) || !take(sign)) continue;
      return sign;
    }
    return "";
  }

  Number atom() {
    if (at_end() || depth_ > deepest) return std::nullopt;
    ++depth_;
    const Number value = take("(")    ? bracket()
                         : take("++") ? step(read_name(), 1, 0)
                         : take("--") ? step(read_name(), -1, 0)
                         : take("-")  ? negated(atom())
                         : take("+")  ? atom()
                         : take("!")  ? inverted(atom())
                                      : name_or_number();
    --depth_;
    return value;
  }
  static Number negated(const Number& value) { return value ? combine(0, "-", *value) : value; }
  static Number inverted(const Number& value) { return value ? Number(*value == 0 ? 1 : 0) : value; }

  Number bracket() {
    const Number value = expression();
    return take(")") ? value : std::nullopt;
  }

  // Returns the value after a step, plus `later`: minus the step for NAME++.
  Number step(std::string_view name, std::int64_t by, std::int64_t later) {
    const Number before = name.empty() ? std::nullopt : number_of(name);
    const Number after = before ? combine(*before, "+", by) : std::nullopt;
    if (!after) return std::nullopt;
    if (dead_ == 0) scope_.assign(name, *after);
    return *after + later;
  }

  Number name_or_number() {
    const std::string_view name = read_name();
    if (!name.empty()) {
      if (take("++")) return step(name, 1, -1);
      if (take("--")) return step(name, -1, 1);
      return number_of(name);
    }
    const std::size_t first = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return decimal(text_.substr(first, at_ - first));
  }

  // A number that begins with 0 is no decimal one.
  static Number decimal(std::string_view digits) {
    return digits.size() > 1 && digits[0] == '0' ? std::nullopt : integer(digits);
  }

  Number number_of(std::string_view name) const {
    const auto value = scope_.value_of(name);
    return value ? decimal(*value) : std::nullopt;
  }

  std::string_view read_name() {
    if (at_end() || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return "";
    const std::size_t first = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::size_t key = text_.find(']', at_);
    if (at_ > first && at_ < text_.size() && text_[at_] == '[' && key != std::string_view::npos) at_ = key + 1;
    return text_.substr(first, at_ - first);
  }

  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ == text_.size();
  }
  bool ahead(std::string_view sign) { return !at_end() && text_.substr(at_).starts_with(sign); }
  bool take(std::string_view sign) {
    if (!ahead(sign)) return false;
    at_ += sign.size();
    return true;
  }

  static constexpr int deepest = 100;  // limit on nested brackets
  std::string_view text_;
  const NumberScope& scope_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int dead_ = 0;  // above 0: in a part that is not reached
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text, const NumberScope& scope) {
  return Parser(text, scope).whole();
}

}  // namespace plumbline::model::megatron
