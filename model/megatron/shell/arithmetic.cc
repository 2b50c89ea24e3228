#include "model/megatron/shell/arithmetic.h"

#include <cctype>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {
namespace {

using Number = std::optional<std::int64_t>;

Number combine(std::int64_t left, std::string_view op, std::int64_t right) {
  std::int64_t result = 0;
  if (op == "+") return __builtin_add_overflow(left, right, &result) ? Number() : result;
  if (op == "-") return __builtin_sub_overflow(left, right, &result) ? Number() : result;
  if (op == "*") return __builtin_mul_overflow(left, right, &result) ? Number() : result;
  if (op == "==") return left == right;
  if (op == "!=") return left != right;
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  if (op == ">=") return left >= right;
  if (op == "&&") return left != 0 && right != 0;
  if (op == "||") return left != 0 || right != 0;
  if (right == 0 || right == -1) return std::nullopt;  // -1: the one quotient that overflows
  return op == "/" ? left / right : left % right;
}

// Operators with two operands, those that bind least first.
constexpr std::string_view levels[][4] = {{"||"},     {"&&"},         {"==", "!="}, {"<=", ">=", "<", ">"},
                                          {"+", "-"}, {"*", "/", "%"}};

class Formula {
 public:
  Formula(std::string_view text, const std::function<std::optional<std::string>(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Number whole() {
    const Number value = operation(levels);
    return at_end() ? value : std::nullopt;
  }

 private:
  Number operation(std::span<const std::string_view[4]> rest) {
    if (rest.empty()) return atom();
    Number left = operation(rest.subspan(1));
    while (left && !at_end()) {
      std::string_view found;
      for (const std::string_view op : rest.front())
        if (found.empty() && !op.empty() && take(op)) found = op;
      if (found.empty()) break;
      const Number right = operation(rest.subspan(1));
      left = right ? combine(*left, found, *right) : std::nullopt;
    }
    return left;
  }

  Number atom() {
    if (at_end() || depth_ > deepest) return std::nullopt;
    ++depth_;
    Number value;
    if (take("(")) {
      value = operation(levels);
      if (!take(")")) value.reset();
    } else if (take("-")) {
      value = atom();
      if (value) value = combine(0, "-", *value);
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
  // An operator is not the beginning of a longer one that is not read, or of an assignment: ** << ++ +=.
  bool take(std::string_view op) {
    if (at_end() || !text_.substr(at_).starts_with(op)) return false;
    const char next = at_ + op.size() < text_.size() ? text_[at_ + op.size()] : '\0';
    const bool longer =
        std::string_view("+-*/%<>").find(op) != std::string_view::npos && (next == '=' || (next == op[0] && op != "/"));
    if (longer && op.size() == 1) return false;
    at_ += op.size();
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
