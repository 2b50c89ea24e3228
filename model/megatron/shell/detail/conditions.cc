#include "model/megatron/shell/detail/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/words.h"

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

// Compares two texts that may hold parts that are not known: unknown unless what is known differs.
Truth equal(const Letters& left, const Letters& right) {
  if (is_known(left) && is_known(right)) return truth_of(text_of(left) == text_of(right));
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].kept || right[i].kept) break;
    if (left[i].symbol != right[i].symbol) return Truth::no;
  }
  if ((left.empty() && has_text(right) == Truth::yes) || (right.empty() && has_text(left) == Truth::yes))
    return Truth::no;
  return Truth::unknown;
}

Truth compare(std::string_view sign, const Letters& left, const Letters& right) {
  if (!is_known(left) || !is_known(right)) return Truth::unknown;
  const auto first = integer(text_of(left)), second = integer(text_of(right));
  if (!first || !second) return Truth::no;  // an error of the shell
  if (sign == "-eq") return truth_of(*first == *second);
  if (sign == "-ne") return truth_of(*first != *second);
  if (sign == "-lt") return truth_of(*first < *second);
  if (sign == "-le") return truth_of(*first <= *second);
  if (sign == "-gt") return truth_of(*first > *second);
  return truth_of(*first >= *second);
}

// Expressions that may take long, and those with signs in quotes, are left undecided.
Truth matches_expression(const Letters& text, const Letters& expression) {
  constexpr std::size_t longest = 200;
  const auto is_sign = [](char symbol) {
    return std::string_view(".[]{}()*+?^$|\\").find(symbol) != std::string_view::npos;
  };
  const std::string pattern = text_of(expression), subject = text_of(text);
  const auto repeats =
      std::ranges::count_if(pattern, [](char symbol) { return symbol == '*' || symbol == '+' || symbol == '{'; });
  const bool quoted =
      std::ranges::any_of(expression, [&](const Letter& letter) { return letter.quoted && is_sign(letter.symbol); });
  if (!is_known(text) || !is_known(expression) || quoted || repeats > 1 || pattern.size() + subject.size() > longest)
    return Truth::unknown;
  try {
    return truth_of(std::regex_search(subject, std::regex(pattern, std::regex::extended)));
  } catch (const std::regex_error&) {
    return Truth::unknown;
  }
}

class ConditionReader {
 public:
  ConditionReader(const std::vector<Letters>& words, bool patterns, Scope& scope, const ShellInputs& inputs)
      : words_(words), patterns_(patterns), scope_(scope), inputs_(inputs) {}

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
    const bool inverted = words_.size() > at_ + 1 && !is_binary(1) && take("!");
    const Truth truth = inverted ? !one() : primary();
    --depth_;
    return truth;
  }

  Truth primary() {
    if (!is_binary(1) && take("(")) {
      const Truth truth = any();
      return take(")") ? truth : Truth::unknown;
    }
    if (is_binary(1)) return binary();
    const std::string sign = word();
    if (sign.size() == 2 && sign[0] == '-' && at_ + 1 < words_.size() && word(1) != ")" && word(1) != "&&" &&
        word(1) != "||") {
      ++at_;
      return unary(sign[1], words_[at_++]);
    }
    return has_text(words_[at_++]);
  }

  bool is_binary(std::size_t ahead) const {
    static constexpr std::string_view signs[] = {"=",   "==",  "!=",  "=~", "-eq", "-ne", "-lt",
                                                 "-le", "-gt", "-ge", "<",  ">",   "-nt", "-ot"};
    return at_ + ahead + 1 < words_.size() && std::ranges::find(signs, word(ahead)) != std::end(signs);
  }

  Truth binary() {
    const Letters& left = words_[at_];
    const std::string sign = word(1);
    const Letters& right = words_[at_ + 2];
    at_ += 3;
    if (sign == "=" || sign == "==") return same(left, right);
    if (sign == "!=") return !same(left, right);
    if (sign == "<" || sign == ">") {
      if (!is_known(left) || !is_known(right)) return Truth::unknown;
      return truth_of(sign == "<" ? text_of(left) < text_of(right) : text_of(left) > text_of(right));
    }
    if (sign == "=~") return matches_expression(left, right);
    if (sign == "-nt" || sign == "-ot") return Truth::unknown;
    return compare(sign, number(left), number(right));
  }

  // [[ ]] takes a name for its value in comparisons of numbers, and a number that begins with 0 is no decimal one
  // there.
  Letters number(const Letters& text) {
    if (!patterns_ || !is_known(text)) return text;
    if (text.empty()) return letters_of("0", 0);
    const auto value = read_number(text, scope_);
    return value ? letters_of(std::to_string(*value), 0) : kept_letters("?", 0);
  }

  Truth same(const Letters& left, const Letters& right) const {
    const bool pattern =
        patterns_ && std::ranges::any_of(right, [](const Letter& letter) {
          return !letter.quoted && (letter.symbol == '*' || letter.symbol == '?' || letter.symbol == '[');
        });
    if (!pattern) return equal(left, right);
    return is_known(left) && is_known(right) ? truth_of(matches(right, left)) : Truth::unknown;
  }

  Truth unary(char sign, const Letters& operand) {
    const std::string text = text_of(operand);
    switch (sign) {
      case 'z':
        return !has_text(operand);
      case 'n':
        return has_text(operand);
      case 'v':
        return is_set(text);
      case 't':
        return Truth::unknown;
      default:
        return file(sign, operand);
    }
  }

  Truth is_set(const std::string& name) {
    if (scope_.find(name) != nullptr) return Truth::yes;
    scope_.miss(name);
    return Truth::unknown;
  }

  // A file that a script asks for is there where it runs; only what lies in the script's own folder is looked up.
  Truth file(char sign, const Letters& path) const {
    const std::string text = text_of(path);
    if (text.empty()) return Truth::no;
    if (std::string_view("defrswx").find(sign) == std::string_view::npos) return Truth::unknown;
    const bool looks = is_known(path) && inputs_.find_file;
    const FileKind kind = looks ? inputs_.find_file(text).kind : FileKind::unknown;
    if (kind == FileKind::none && text.starts_with('/')) return Truth::no;
    if (kind == FileKind::file || kind == FileKind::folder)
      return truth_of((sign != 'd' || kind == FileKind::folder) && (sign != 'f' || kind == FileKind::file));
    scope_.note(fmt::format("'-{} {}' is taken to hold: the file is there where the script runs", sign, text));
    return Truth::yes;
  }

  const std::vector<Letters>& words_;
  bool patterns_;
  Scope& scope_;
  const ShellInputs& inputs_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Truth evaluate_condition(const std::vector<Letters>& words, bool patterns, Scope& scope, const ShellInputs& inputs) {
  return ConditionReader(words, patterns, scope, inputs).read();
}

}  // namespace plumbline::model::megatron
