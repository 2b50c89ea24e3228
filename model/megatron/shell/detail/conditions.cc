// Conditions of [ ], test and [[ ]].
#include <algorithm>
#include <regex>
#include <string>
#include <string_view>
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
  if (std::ranges::any_of(text, [](const Letter& letter) { return !letter.kept; })) return Truth::yes;
  return text.empty() ? Truth::no : Truth::unknown;
}

// Compares two texts that may hold parts that are not known: unknown unless what is known before them differs.
Truth same_text(const Letters& left, const Letters& right) {
  if (is_known(left) && is_known(right)) return truth_of(text_of(left) == text_of(right));
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].kept || right[i].kept) break;
    if (left[i].symbol != right[i].symbol) return Truth::no;
  }
  return Truth::unknown;
}

// Expressions that may take long, and those with quotes or a backslash, are left undecided.
Truth matches_expression(const Letters& text, const Letters& expression) {
  constexpr std::size_t longest = 200;
  const std::string pattern = text_of(expression), subject = text_of(text);
  const auto repeats =
      std::ranges::count_if(pattern, [](char symbol) { return symbol == '*' || symbol == '+' || symbol == '{'; });
  if (!is_known(text) || !is_known(expression) || std::ranges::any_of(expression, &Letter::quoted) || repeats > 1 ||
      pattern.size() + subject.size() > longest)
    return Truth::unknown;
  try {
    return truth_of(std::regex_search(subject, std::regex(pattern, std::regex::extended)));
  } catch (const std::regex_error&) {
    return Truth::unknown;
  }
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
  std::string word(std::size_t ahead = 0) const {
    return at_ + ahead < words_.size() ? text_of(words_[at_ + ahead]) : "";
  }
  bool take(std::string_view sign) {
    if (at_ >= words_.size() || word() != sign) return false;
    ++at_;
    return true;
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
    if (++depth_ > 100) {
      at_ = words_.size() + 1;
      return Truth::unknown;
    }
    const bool inverted = words_.size() > at_ + 1 && !is_binary() && take("!");
    const Truth truth = inverted ? !one() : primary();
    --depth_;
    return truth;
  }

  bool is_binary() const {
    static constexpr std::string_view signs_of_two[] = {"=",   "==",  "!=",  "=~", "-eq", "-ne", "-lt",
                                                        "-le", "-gt", "-ge", "<",  ">",   "-nt", "-ot"};
    return at_ + 2 < words_.size() && std::ranges::find(signs_of_two, word(1)) != std::end(signs_of_two);
  }

  Truth primary() {
    if (is_binary()) {
      at_ += 3;
      return binary(words_[at_ - 3], text_of(words_[at_ - 2]), words_[at_ - 1]);
    }
    if (take("(")) {
      const Truth truth = any();
      return take(")") ? truth : Truth::unknown;
    }
    const std::string sign = word();
    const bool has_operand = at_ + 1 < words_.size() && word(1) != ")" && word(1) != "&&" && word(1) != "||";
    if (sign.size() != 2 || sign[0] != '-' || !has_operand) return has_text(words_[at_++]);
    at_ += 2;
    return unary(sign[1], words_[at_ - 1]);
  }

  Truth binary(const Letters& left, const std::string& sign, const Letters& right) {
    if (sign == "=" || sign == "==") return same(left, right);
    if (sign == "!=") return !same(left, right);
    if (sign == "=~") return matches_expression(left, right);
    if (!is_known(left) || !is_known(right) || sign == "-nt" || sign == "-ot") return Truth::unknown;
    if (sign == "<") return truth_of(text_of(left) < text_of(right));
    if (sign == ">") return truth_of(text_of(left) > text_of(right));
    const auto first = number(left), second = number(right);
    if (!first || !second) return patterns_ ? Truth::unknown : Truth::no;  // [ ] has an error there
    if (sign == "-eq") return truth_of(*first == *second);
    if (sign == "-ne") return truth_of(*first != *second);
    if (sign == "-lt") return truth_of(*first < *second);
    if (sign == "-le") return truth_of(*first <= *second);
    return truth_of(sign == "-gt" ? *first > *second : *first >= *second);
  }

  // [[ ]] evaluates what it compares as numbers.
  std::optional<std::int64_t> number(const Letters& text) {
    if (!patterns_) return integer(text_of(text));
    return text.empty() ? 0 : shell_.number(text);
  }

  Truth same(const Letters& left, const Letters& right) const {
    const auto is_glob = [](const Letter& letter) {
      return !letter.quoted && std::string_view("*?[").find(letter.symbol) != std::string_view::npos;
    };
    if (!patterns_ || std::ranges::none_of(right, is_glob)) return same_text(left, right);
    return is_known(left) && is_known(right) ? truth_of(matches(right, left)) : Truth::unknown;
  }

  Truth unary(char sign, const Letters& operand) {
    const std::string text = text_of(operand);
    if (sign == 'z') return !has_text(operand);
    if (sign == 'n') return has_text(operand);
    if (sign == 'v') {
      const auto fields = shell_.fields_of(text);
      if (!fields) shell_.miss(text);
      return fields ? truth_of(!fields->empty()) : Truth::unknown;
    }
    // Only what lies in the script's own folder is looked up.
    if (text.empty() && sign != 't') return Truth::no;
    if (!is_known(operand) || !shell_.inputs().find_file ||
        std::string_view("def").find(sign) == std::string_view::npos)
      return Truth::unknown;
    const FileKind kind = shell_.inputs().find_file(text).kind;
    if (kind == FileKind::unknown || (kind == FileKind::none && !text.starts_with('/'))) return Truth::unknown;
    return truth_of(kind != FileKind::none && (sign == 'e' || (sign == 'd') == (kind == FileKind::folder)));
  }

  const std::vector<Letters>& words_;
  bool patterns_;
  Reader& shell_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Truth Reader::test(const std::vector<Letters>& words, bool patterns) {
  return ConditionReader(words, patterns, *this).read();
}

}  // namespace plumbline::model::megatron
