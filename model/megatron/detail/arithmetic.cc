#include "model/megatron/detail/arithmetic.h"

#include <cctype>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::model::megatron {
namespace {

using Number = std::optional<std::int64_t>;

Number combine(std::int64_t left, char sign, std::int64_t right) {
  std::int64_t result = 0;
  if (sign == '+') return __builtin_add_overflow(left, right, &result) ? Number() : result;
  if (sign == '-') return __builtin_sub_overflow(left, right, &result) ? Number() : result;
  if (sign == '*') return __builtin_mul_overflow(left, right, &result) ? Number() : result;
  if (right == 0 || right == -1) return std::nullopt;  // -1: the one quotient that overflows
  return sign == '/' ? left / right : left % right;
}

// A recursive-descent parser: sums of products of atoms.
class Parser {
 public:
  Parser(std::string_view text, const std::function<std::optional<std::string>(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Number whole() {
    const Number value = chain("+-", &Parser::product);
    skip_space();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Part = Number (Parser::*)();

  Number chain(std::string_view signs, Part part) {
    Number value = (this->*part)();
    while (value && !at_end() && signs.find(text_[at_]) != std::string_view::npos) {
      const char sign = text_[at_++];
      const Number next = (this->*part)();
      value = next ? combine(*value, sign, *next) : std::nullopt;
    }
    return value;
  }
  Number product() { return chain("*/%", &Parser::atom); }

  Number atom() {
    if (at_end() || depth_ > kDeepest) return std::nullopt;
    if (text_[at_] == '(') return bracket();
    if (text_[at_] == '-') {
      ++at_;
      ++depth_;
      const Number value = atom();
      --depth_;
      return value ? combine(0, '-', *value) : std::nullopt;
    }
    return name_or_number();
  }

  Number bracket() {
    ++at_;
    ++depth_;
    const Number value = chain("+-", &Parser::product);
    --depth_;
    if (at_end() || text_[at_] != ')') return std::nullopt;
    ++at_;
    return value;
  }

  Number name_or_number() {
    bool named = text_[at_] == '$';
    if (named) ++at_;
    const bool braced = named && at_ < text_.size() && text_[at_] == '{';
    if (braced) ++at_;
    const std::size_t first = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(first, at_ - first);
    if (word.empty()) return std::nullopt;
    if (braced && (at_ == text_.size() || text_[at_++] != '}')) return std::nullopt;
    named = named || !std::isdigit(static_cast<unsigned char>(word.front()));
    if (!named) return integer(word);
    const auto value = value_of_(word);
    return value ? integer(*value) : std::nullopt;
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  static constexpr int kDeepest = 100;  // limit on nested brackets
  std::string_view text_;
  const std::function<std::optional<std::string>(std::string_view)>& value_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const std::function<std::optional<std::string>(std::string_view)>& value_of) {
  return Parser(text, value_of).whole();
}

}  // namespace plumbline::model::megatron
