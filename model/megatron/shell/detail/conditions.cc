// Conditions of [ ], test and [[ ]].
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/reader.h"

namespace plumbline::model::megatron {
namespace {

Truth both(Truth left, Truth right) {
  if (left == Truth::no || right == Truth::no) return Truth::no;
  return left == Truth::yes && right == Truth::yes ? Truth::yes : Truth::unknown;
}

Truth has_text(const Letters& text) {
  if (std::ranges::any_of(text, &Letter::is_known)) return Truth::yes;
  return text.empty() ? Truth::no : Truth::unknown;
}

// Compares two texts that may hold parts that are not known: unknown unless what is known before them differs.
Truth same_text(const Letters& left, const Letters& right) {
  if (is_known(left) && is_known(right)) return truth_of(text_of(left) == text_of(right));
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!left[i].is_known() || !right[i].is_known()) break;
    if (left[i].symbol != right[i].symbol) return Truth::no;
  }
  return Truth::unknown;
}

class ConditionReader {
 public:
  ConditionReader(const std::vector<Letters>& words, bool patterns, Reader& shell)
      : words_(words), patterns_(patterns), shell_(shell) {}

  Truth read() {
    const Truth truth = any();
    return at_ == words_.size() ? truth : Truth::unknown;
  }

 private:
  std::string word(std::size_t ahead) const { return at_ + ahead < words_.size() ? text_of(words_[at_ + ahead]) : ""; }
  bool take(std::string_view op) {
    const bool taken = at_ < words_.size() && word(0) == op;
    if (taken) ++at_;
    return taken;
  }
  Truth any() {
    Truth truth = all();
    while (take(patterns_ ? "||" : "-o")) truth = !both(!truth, !all());
    return truth;
  }
  Truth all() {
    Truth truth = one();
    while (take(patterns_ ? "&&" : "-a")) truth = both(truth, one());
    return truth;
  }

  Truth one() {
    if (at_ >= words_.size()) return Truth::no;  // [ ] of nothing
    if (at_ + 2 < words_.size())
      if (const auto truth = binary(words_[at_], word(1), words_[at_ + 2])) {
        at_ += 3;
        return *truth;
      }
    if (at_ + 1 < words_.size() && take("!")) return !one();
    if (take("(")) {
      const Truth truth = any();
      return take(")") ? truth : Truth::unknown;
    }
    const std::string op = word(0);
    const bool has_operand = at_ + 1 < words_.size() && word(1) != ")" && word(1) != "&&" && word(1) != "||";
    at_ += op.size() == 2 && op[0] == '-' && has_operand ? 2 : 1;
    const Letters& operand = words_[at_ - 1];
    if (!has_operand || op.size() != 2 || op[0] != '-' || op[1] == 'n') return has_text(operand);
    return op[1] == 'z' ? !has_text(operand) : file(op[1], operand);
  }

  // Returns nothing where the word in the middle is no operator of two operands.
  std::optional<Truth> binary(const Letters& left, const std::string& op, const Letters& right) {
    static constexpr std::pair<std::string_view, std::string_view> numeric[] = {
        {"-eq", "=="}, {"-ne", "!="}, {"-lt", "<"}, {"-le", "<="}, {"-gt", ">"}, {"-ge", ">="}};
    if (op == "=" || op == "==") return same(left, right);
    if (op == "!=") return !same(left, right);
    if (op == "=~") return Truth::unknown;
    const bool known = is_known(left) && is_known(right);
    if (op == "<" || op == ">")
      return known ? truth_of((text_of(left) < text_of(right)) == (op == "<") && text_of(left) != text_of(right))
                   : Truth::unknown;
    const auto* number = std::ranges::find(numeric, op, &std::pair<std::string_view, std::string_view>::first);
    if (number == std::end(numeric)) return std::nullopt;
    // [[ ]] evaluates what it compares; [ ] has an error where it is no number.
    const std::string first = text_of(left), second = text_of(right);
    if (!known || (!patterns_ && (!integer(first) || !integer(second)))) return Truth::unknown;
    const auto text = [](const std::string& value) { return value.empty() ? "0" : value; };
    const auto holds =
        shell_.number(letters_of("(" + text(first) + ")" + std::string(number->second) + "(" + text(second) + ")"));
    return holds ? truth_of(*holds != 0) : Truth::unknown;
  }

  Truth same(const Letters& left, const Letters& right) const {
    const auto is_glob = [](const Letter& letter) {
      return !letter.quoted && std::string_view("*?[").find(letter.symbol) != std::string_view::npos;
    };
    if (!patterns_ || std::ranges::none_of(right, is_glob)) return same_text(left, right);
    return is_known(left) && is_known(right) ? truth_of(matches(right, left)) : Truth::unknown;
  }

  // Only what lies in the script's own folder is looked up.
  Truth file(char op, const Letters& operand) const {
    const std::string text = text_of(operand);
    const bool looks = is_known(operand) && !text.empty() && (op == 'd' || op == 'e' || op == 'f');
    const FileKind kind = looks ? shell_.find(text).kind : FileKind::unknown;
    if (kind == FileKind::unknown || (kind == FileKind::none && !text.starts_with('/'))) return Truth::unknown;
    return truth_of(kind != FileKind::none && (op == 'e' || (op == 'd') == (kind == FileKind::folder)));
  }

  const std::vector<Letters>& words_;
  bool patterns_;
  Reader& shell_;
  std::size_t at_ = 0;
};

}  // namespace

Truth Reader::test(const std::vector<Letters>& words, bool patterns) {
  if (words.size() > 500) return Truth::unknown;  // brackets in brackets
  return ConditionReader(words, patterns, *this).read();
}

}  // namespace plumbline::model::megatron
