#include "model/megatron/shell/arithmetic.h"

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {
namespace {

using Number = std::optional<std::int64_t>;

// Shifts that lose bits, and powers that do not fit, have no value.
Number shifted(std::int64_t left, std::int64_t by, bool up) {
  if (by < 0 || by > 62) return std::nullopt;
  std::int64_t result = 0;
  if (up) return __builtin_mul_overflow(left, std::int64_t{1} << by, &result) ? Number() : result;
  return left >> by;
}

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 63) return std::nullopt;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  return result;
}

Number combine(std::int64_t left, std::string_view sign, std::int64_t right) {
  std::int64_t result = 0;
  if (sign == "+") return __builtin_add_overflow(left, right, &result) ? Number() : result;
  if (sign == "-") return __builtin_sub_overflow(left, right, &result) ? Number() : result;
  if (sign == "*") return __builtin_mul_overflow(left, right, &result) ? Number() : result;
  if (sign == "==") return left == right;
  if (sign == "!=") return left != right;
  if (sign == "<") return left < right;
  if (sign == "<=") return left <= right;
  if (sign == ">") return left > right;
  if (sign == ">=") return left >= right;
  if (sign == "&&") return left != 0 && right != 0;
  if (sign == "||") return left != 0 || right != 0;
  if (sign == "&") return left & right;
  if (sign == "|") return left | right;
  if (sign == "^") return left ^ right;
  if (sign == "**") return power(left, right);
  if (sign == "<<" || sign == ">>") return shifted(left, right, sign == "<<");
  if (right == 0 || right == -1) return std::nullopt;  // -1: the one quotient that overflows
  return sign == "/" ? left / right : left % right;
}

// Signs with two operands and how strongly they bind; longer ones before their beginnings. Powers bind from the right.
constexpr int power_strength = 11;
constexpr struct {
  std::string_view sign;
  int strength;
} signs[] = {{"||", 1},
             {"&&", 2},
             {"==", 6},
             {"!=", 6},
             {"<=", 7},
             {">=", 7},
             {"<<", 8},
             {">>", 8},
             {"<", 7},
             {">", 7},
             {"**", power_strength},
             {"|", 3},
             {"^", 4},
             {"&", 5},
             {"+", 9},
             {"-", 9},
             {"*", 10},
             {"/", 10},
             {"%", 10}};

// A parser by precedence.
class Formula {
 public:
  Formula(std::string_view text, const std::function<std::optional<std::string>(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Number whole() {
    const Number value = expression();
    return at_end() ? value : std::nullopt;
  }

 private:
  Number expression() {
    const Number condition = operation(1);
    if (!condition || !take("?")) return condition;
    ++depth_;
    const Number yes = expression();
    if (!take(":")) return std::nullopt;
    const Number no = expression();
    --depth_;
    return *condition != 0 ? yes : no;
  }

  Number operation(int least) {
    Number left = atom();
    while (left && !at_end()) {
      const auto* sign = std::begin(signs);
      while (sign != std::end(signs) && !text_.substr(at_).starts_with(sign->sign)) ++sign;
      if (sign == std::end(signs) || sign->strength < least) break;
      at_ += sign->sign.size();
      const Number right = operation(sign->strength == power_strength ? power_strength : sign->strength + 1);
      left = right ? combine(*left, sign->sign, *right) : std::nullopt;
    }
    return left;
  }

  Number atom() {
    if (at_end() || depth_ > deepest) return std::nullopt;
    ++depth_;
    Number value;
    if (take("(")) {
      value = expression();
      if (!take(")")) value.reset();
    } else if (take("-")) {
      value = atom();
      if (value) value = combine(0, "-", *value);
    } else if (take("~")) {
      value = atom();
      if (value) value = ~*value;
    } else if (take("!")) {
      value = atom();
      if (value) value = *value == 0 ? 1 : 0;
    } else {
      value = take("+") ? atom() : name_or_number();
    }
    --depth_;
    return value;
  }

  Number name_or_number() {
    const std::size_t first = at_;
    const bool digits = std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (at_ == first) return std::nullopt;
    if (digits) return decimal(text_.substr(first, at_ - first));
    const std::size_t key = at_ < text_.size() && text_[at_] == '[' ? text_.find(']', at_) : std::string_view::npos;
    if (key != std::string_view::npos) at_ = key + 1;
    const auto value = value_of_(text_.substr(first, at_ - first));
    return value ? decimal(*value) : std::nullopt;
  }

  // A number that begins with 0 is no decimal one.
  static Number decimal(std::string_view digits) {
    return digits.size() > 1 && digits[0] == '0' ? std::nullopt : integer(digits);
  }

  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ == text_.size();
  }
  bool take(std::string_view sign) {
    if (at_end() || !text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  static constexpr int deepest = 100;  // limit on what is nested
  std::string_view text_;
  const std::function<std::optional<std::string>(std::string_view)>& value_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const std::function<std::optional<std::string>(std::string_view)>& value_of) {
  return Formula(text, value_of).whole();
}

}  // namespace plumbline::model::megatron
