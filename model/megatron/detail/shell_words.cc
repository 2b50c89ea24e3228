#include "model/megatron/detail/shell_words.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/megatron/detail/arithmetic.h"

namespace plumbline::model::megatron {
namespace {

bool in_name(char symbol) { return std::isalnum(static_cast<unsigned char>(symbol)) != 0 || symbol == '_'; }
bool begins_name(char symbol) { return in_name(symbol) && std::isdigit(static_cast<unsigned char>(symbol)) == 0; }

Letters slice(const Letters& text, std::size_t first, std::size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(first), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

class WordReader {
 public:
  WordReader(const Letters& text, std::size_t first, const Variables& variables)
      : text_(text), at_(first), variables_(variables) {}

  ReadWord read(bool may_assign) {
    ReadWord word;
    if (may_assign) take_assignment(word);
    if (word.assignment && at_ < text_.size() && text_[at_].symbol == '(') {
      read_array(word);
    } else {
      splitting_ = !word.assignment;
      read_fields();
      if (word.assignment && fields_.empty()) fields_.emplace_back();
      word.fields = fields_;
    }
    word.end = at_;
    if (!word.unclosed) word.unclosed = unclosed_;
    return word;
  }

 private:
  void take_assignment(ReadWord& word) {
    std::size_t end = at_;
    if (end == text_.size() || !begins_name(text_[end].symbol)) return;
    while (end < text_.size() && in_name(text_[end].symbol)) ++end;
    const bool append = end + 1 < text_.size() && text_[end].symbol == '+' && text_[end + 1].symbol == '=';
    const std::size_t equals = end + (append ? 1 : 0);
    if (equals >= text_.size() || text_[equals].symbol != '=') return;
    word.assignment = true;
    word.append = append;
    word.name = text_of(slice(text_, at_, end));
    at_ = equals + 1;
  }

  // Reads ( word word ... ), over several lines, with comments between.
  void read_array(ReadWord& word) {
    const std::size_t open = at_++;
    word.list = true;
    while (at_ < text_.size() && text_[at_].symbol != ')') {
      const char symbol = text_[at_].symbol;
      if (is_blank(symbol) || symbol == '\n') {
        ++at_;
      } else if (symbol == '\\' && at_ + 1 < text_.size() && text_[at_ + 1].symbol == '\n') {
        at_ += 2;
      } else if (symbol == '#') {
        while (at_ < text_.size() && text_[at_].symbol != '\n') ++at_;
      } else {
        const ReadWord inner = read_word(text_, at_, false, variables_);
        if (inner.unclosed) word.unclosed = inner.unclosed;
        word.fields.insert(word.fields.end(), inner.fields.begin(), inner.fields.end());
        at_ = inner.end > at_ ? inner.end : at_ + 1;  // a stray ; or & in the list is skipped
      }
    }
    if (at_ == text_.size()) {
      word.unclosed = open;
    } else {
      ++at_;
    }
  }

  void read_fields() {
    while (at_ < text_.size() && !unclosed_) {
      const char symbol = text_[at_].symbol;
      if (is_blank(symbol) || ends_command(symbol) || symbol == '<' || symbol == '>') return;
      if (symbol == '\'') {
        read_single_quotes();
      } else if (symbol == '"') {
        read_double_quotes();
      } else if (symbol == '\\') {
        read_escape();
      } else if (symbol == '$' || symbol == '`') {
        read_dollar(false);
      } else {
        put(text_[at_++]);
      }
    }
  }

  void read_escape() {
    ++at_;
    if (at_ == text_.size()) return;
    if (text_[at_].symbol != '\n') put(text_[at_]);
    ++at_;
  }

  void read_single_quotes() {
    const std::size_t open = at_++;
    begin_field();
    while (at_ < text_.size() && text_[at_].symbol != '\'') put(text_[at_++]);
    close(open);
  }

  void read_double_quotes() {
    const std::size_t open = at_++;
    // "${LIST[@]}" of an empty list, and "$@", add no field.
    if (!is_whole_list()) begin_field();
    while (at_ < text_.size() && text_[at_].symbol != '"') {
      const char symbol = text_[at_].symbol;
      if (symbol == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[at_ + 1].symbol;
        if (next != '"' && next != '\\' && next != '$' && next != '`' && next != '\n') put(text_[at_]);
        if (next != '\n') put(text_[at_ + 1]);
        at_ += 2;
      } else if (symbol == '$' || symbol == '`') {
        read_dollar(true);
      } else {
        put(text_[at_++]);
      }
    }
    close(open);
  }

  bool is_whole_list() const {
    std::size_t end = at_;
    while (end < text_.size() && text_[end].symbol != '"') ++end;
    const std::string inside = text_of(slice(text_, at_, end));
    return inside == "$@" || inside == "$*" || inside == "${@}" ||
           (inside.starts_with("${") && inside.ends_with("[@]}"));
  }

  void close(std::size_t open) {
    if (at_ == text_.size()) {
      unclosed_ = open;
    } else {
      ++at_;
    }
  }

  // Expands $NAME, ${...} and $((...)). $(...) and `...` are commands and stay as written.
  void read_dollar(bool quoted) {
    const std::size_t first = at_++;
    if (text_[first].symbol == '`') {
      while (at_ < text_.size() && text_[at_].symbol != '`') ++at_;
      if (at_ < text_.size()) ++at_;
      return put_as_written(first);
    }
    const char next = at_ < text_.size() ? text_[at_].symbol : ' ';
    if (next == '(') return read_bracket(first);
    if (next == '{') {
      const std::size_t inside = ++at_;
      at_ = behind_closing(text_, inside, '{', '}');
      const bool closed = at_ > inside && text_[at_ - 1].symbol == '}';
      if (!closed) return put_as_written(first);
      return expand_braced(text_of(slice(text_, inside, at_ - 1)), first, quoted);
    }
    if (next == '@' || next == '*') {
      ++at_;
      return put_value("@", first, quoted);
    }
    const bool positional = std::isdigit(static_cast<unsigned char>(next)) != 0;
    if (!positional && !begins_name(next)) return put(text_[first]);
    const std::size_t begin = at_++;
    while (!positional && at_ < text_.size() && in_name(text_[at_].symbol)) ++at_;
    put_value(text_of(slice(text_, begin, at_)), first, quoted);
  }

  void read_bracket(std::size_t first) {
    const bool sum = at_ + 1 < text_.size() && text_[at_ + 1].symbol == '(';
    const std::size_t inside = ++at_;
    at_ = behind_closing(text_, inside, '(', ')');
    if (sum && at_ >= inside + 3) {
      const std::string formula = text_of(slice(text_, inside + 1, at_ - 2));
      const auto number = arithmetic(formula, [this](std::string_view name) { return scalar(name); });
      if (number) return put_all(letters_of(std::to_string(*number), 0), text_[first].line);
    }
    put_as_written(first);
  }

  std::optional<std::string> scalar(std::string_view name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.empty()) return std::nullopt;
    return text_of(found->second.front());
  }

  // Expands NAME, NAME[@], NAME[0], NAME:-default, NAME-default, NAME:=default and NAME:+other.
  void expand_braced(const std::string& inside, std::size_t first, bool quoted) {
    std::size_t end = 0;
    while (end < inside.size() && (in_name(inside[end]) || (end == 0 && inside[end] == '@'))) ++end;
    const std::string name = inside.substr(0, end);
    std::string rest = inside.substr(end);
    if (name.empty()) return put_as_written(first);
    if (rest.empty() || rest == "[@]" || rest == "[*]") return put_value(name, first, quoted);
    if (rest.starts_with(':')) rest.erase(0, 1);
    const auto value = scalar(name);
    if (rest.starts_with('-') || rest.starts_with('=')) {
      if (value && !value->empty()) return put_value(name, first, quoted);
      return put_default(rest.substr(1), first, quoted);
    }
    if (rest.starts_with('+')) return value && !value->empty() ? put_default(rest.substr(1), first, quoted) : void();
    if (rest.starts_with('?')) return put_value(name, first, quoted);
    if (rest.starts_with('[') && rest.ends_with(']')) {
      const auto index = integer(rest.substr(1, rest.size() - 2));
      const auto found = variables_.find(name);
      const bool there =
          index && *index >= 0 && found != variables_.end() && static_cast<std::size_t>(*index) < found->second.size();
      if (there) return put_expanded({found->second[static_cast<std::size_t>(*index)]}, quoted);
    }
    put_as_written(first);
  }

  // The default may contain variables.
  void put_default(const std::string& text, std::size_t first, bool quoted) {
    const Letters quoted_text = letters_of("\"" + text + "\"", 0);
    ReadWord word = read_word(quoted_text, 0, false, variables_);
    for (Letters& field : word.fields) {
      for (Letter& letter : field) letter.line = text_[first].line;
    }
    put_expanded(word.fields, quoted);
  }

  void put_value(const std::string& name, std::size_t first, bool quoted) {
    const auto found = variables_.find(name);
    if (found != variables_.end()) return put_expanded(found->second, quoted);
    if (name != "@") put_as_written(first);
  }

  void put_expanded(const Fields& values, bool quoted) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) in_field_ = false;
      if (quoted || !splitting_) {
        for (const Letter& letter : values[i]) put(letter);
        continue;
      }
      for (const Letter& letter : values[i]) {
        if (!letter.kept && (is_blank(letter.symbol) || letter.symbol == '\n')) {
          in_field_ = false;
        } else {
          put(letter);
        }
      }
    }
  }

  void put_as_written(std::size_t first) {
    for (std::size_t i = first; i < at_; ++i) put({text_[i].symbol, text_[i].line, true});
  }
  void put_all(const Letters& letters, int line) {
    for (const Letter& letter : letters) put({letter.symbol, line});
  }
  void begin_field() {
    if (!in_field_) fields_.emplace_back();
    in_field_ = true;
  }
  void put(Letter letter) {
    begin_field();
    fields_.back().push_back(letter);
  }

  const Letters& text_;
  std::size_t at_;
  const Variables& variables_;
  Fields fields_;
  bool in_field_ = false;
  bool splitting_ = true;
  std::optional<std::size_t> unclosed_;
};

}  // namespace

bool is_blank(char symbol) { return symbol == ' ' || symbol == '\t' || symbol == '\r'; }

bool ends_command(char symbol) {
  return symbol == '\n' || symbol == ';' || symbol == '&' || symbol == '|' || symbol == '(' || symbol == ')';
}

ReadWord read_word(const Letters& text, std::size_t first, bool may_assign, const Variables& variables) {
  return WordReader(text, first, variables).read(may_assign);
}

}  // namespace plumbline::model::megatron
