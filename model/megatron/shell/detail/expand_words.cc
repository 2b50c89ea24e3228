#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/scan.h"
#include "model/megatron/shell/detail/words.h"

namespace plumbline::model::megatron {
namespace {

// What stands between the braces of ${...}.
struct Parameter {
  std::optional<Fields> fields;  // nothing where only a running shell has the value
  bool joined = false;           // one field in double quotes, as of ${LIST[*]}
  bool is_new = false;           // made here: its line is that of the expansion
};

// Returns the name of an element, NAME[KEY]: the key is a text in an associative array, else a number. Nothing where it
// is not known.
std::optional<std::string> element(const std::string& name, const Letters& key, Scope& scope) {
  const Letters field = read_field(key, scope);
  if (!is_known(field)) return std::nullopt;
  std::string text = text_of(field);
  if (!scope.is_map(name)) {
    const auto number = read_number(field, scope);
    if (!number) return std::nullopt;
    text = std::to_string(*number);
  }
  return name + "[" + text + "]";
}

constexpr std::size_t most_trimmed = 4096;  // letters of a value: the work is their square

class ParameterReader {
 public:
  ParameterReader(const Letters& inside, Scope& scope) : text_(inside), scope_(scope) {}

  Parameter read() {
    length_ = text_.size() > 1 && text_[0].symbol == '#';
    if (length_) ++at_;
    take_name();
    if (name_.empty()) return {};
    take_key();
    find();
    if (length_) return length();
    return operate();
  }

 private:
  char symbol() const { return at_ < text_.size() ? text_[at_].symbol : '\0'; }

  void take_name() {
    const bool special = std::string_view("@*#?").find(symbol()) != std::string_view::npos && symbol() != '\0';
    if (special) {
      name_ = symbol() == '*' ? '@' : symbol();
      all_ = name_ == "@";
      joined_ = symbol() == '*';
      ++at_;
      return;
    }
    while (in_name(symbol())) name_ += text_[at_++].symbol;
  }

  void take_key() {
    if (symbol() != '[') return;
    const std::size_t first = at_ + 1;
    at_ = Scan(text_).brackets(at_, '[', ']');
    const Letters key = slice(text_, first, std::max(at_, first + 1) - 1);
    const std::string written = text_of(key);
    all_ = written == "@" || written == "*";
    joined_ = written == "*";
    if (all_) return;
    const auto name = element(name_, key, scope_);
    element_ = name.value_or(name_);
    if (!name) fields_ = Fields{kept_letters("$" + name_, line())};
  }

  // Finds the fields of the name; a scalar has its first one.
  void find() {
    if (fields_) return;
    const Fields* value = scope_.find(element_.empty() ? name_ : element_);
    if (value != nullptr) {
      fields_ = *value;
      if (!all_ && fields_->size() > 1) fields_->resize(1);
    } else if (!element_.empty()) {
      find_in_list();
    } else if (name_ == "@") {
      fields_ = Fields();
    }
  }

  void find_in_list() {
    const Fields* list = scope_.find(name_);
    const auto index = integer(std::string_view(element_).substr(name_.size() + 1, element_.size() - name_.size() - 2));
    if (list == nullptr) return;
    const auto open = std::ranges::find_if_not(*list, is_known);
    if (open != list->end()) {
      fields_ = Fields{*open};
    } else if (index) {
      const auto size = static_cast<std::int64_t>(list->size());
      const std::int64_t at = *index < 0 ? size + *index : *index;
      fields_ = Fields();
      if (at >= 0 && at < size) fields_->push_back((*list)[static_cast<std::size_t>(at)]);
    }
  }

  bool known() const { return fields_ && std::ranges::all_of(*fields_, is_known); }
  bool empty() const { return fields_ && std::ranges::all_of(*fields_, &Letters::empty); }

  Parameter result() {
    if (!known()) scope_.miss(name_);
    return {fields_, joined_, false};
  }
  static Parameter made(const std::string& text) { return {Fields{letters_of(text, 0)}, false, true}; }

  Parameter length() {
    if (!known()) {
      scope_.miss(name_);
      return {};
    }
    return made(std::to_string(all_ ? fields_->size() : fields_->empty() ? 0 : fields_->front().size()));
  }

  Parameter operate() {
    if (at_ == text_.size()) return result();
    const bool or_empty = symbol() == ':' && at_ + 1 < text_.size() &&
                          std::string_view("-=?+").find(text_[at_ + 1].symbol) != std::string_view::npos;
    if (or_empty) ++at_;
    const char sign = symbol();
    if (std::string_view("-=?+").find(sign) != std::string_view::npos) {
      argument_ = slice(text_, at_ + 1, text_.size());
      const bool missing = !fields_ || fields_->empty() || (or_empty && empty());
      return default_of(sign, missing);
    }
    if (known() && (sign == '#' || sign == '%')) return trim(sign);
    return unknown();
  }

  // An operation that is not read, or on a value that is not known, is kept as it is written.
  Parameter unknown() {
    scope_.miss(name_);
    return {};
  }

  Parameter default_of(char sign, bool missing) {
    if (sign == '+') {
      if (!fields_) scope_.take_default(name_, "", line());
      if (fields_ && !known()) return unknown();
      return missing ? Parameter{Fields()} : given();
    }
    if (!missing || sign == '?') return result();
    Parameter taken = given();
    if (!fields_) {
      std::string text;
      for (const Letters& field : *taken.fields) text += text_of(field);
      scope_.take_default(name_, text, line());
    }
    if (sign == '=')
      scope_.assign(element_.empty() ? name_ : element_, taken.fields->empty() ? Fields(1) : *taken.fields);
    return taken;
  }
  int line() const { return text_.empty() ? 0 : text_.front().line; }

  // The word behind the operator, with its quotes removed.
  Parameter given() { return {read_word(argument_, false, scope_).fields, false, true}; }

  Parameter trim(char sign) {
    const bool twice = at_ + 1 < text_.size() && text_[at_ + 1].symbol == sign;
    const Letters pattern = read_field(slice(text_, at_ + (twice ? 2 : 1), text_.size()), scope_);
    const auto too_long = [](const Letters& field) { return field.size() > most_trimmed; };
    if (!is_known(pattern) || std::ranges::any_of(*fields_, too_long)) return unknown();
    for (Letters& field : *fields_)
      field = trimmed(field, twice ? std::string(2, sign) : std::string(1, sign), pattern);
    return result();
  }

  const Letters& text_;
  Scope& scope_;
  std::size_t at_ = 0;
  std::string name_, element_;
  bool length_ = false, all_ = false, joined_ = false;
  std::optional<Fields> fields_;
  Letters argument_;
};

// Expands NAME, NAME[@], NAME[KEY], #NAME and the operators - = ? + # %; nothing else.
Parameter read_parameter(const Letters& inside, Scope& scope) { return ParameterReader(inside, scope).read(); }

class WordReader {
 public:
  WordReader(const Letters& text, Scope& scope, bool splitting) : text_(text), scope_(scope), splitting_(splitting) {}

  ReadWord read(bool may_assign) {
    ReadWord word;
    if (may_assign) take_assignment(word);
    if (!word.assignment && splitting_ && has_braces()) {
      word.fields = {kept_letters(text_of(text_), text_.front().line)};
      return word;
    }
    if (word.assignment && at_ < text_.size() && text_[at_].symbol == '(') {
      read_array(word);
      return word;
    }
    splitting_ = splitting_ && !word.assignment;
    read_fields();
    // What "${LIST[@]}" makes of a word is joined where it is a value.
    word.fields = word.assignment ? Fields{join(fields_)} : std::move(fields_);
    if (word.assignment && unknown_key_) word.fields = {kept_letters("$" + word.name, text_.front().line)};
    return word;
  }

  Letters read_quoted() {
    splitting_ = false;
    in_quotes_ = true;
    while (at_ < text_.size()) read_quoted_piece();
    return join(fields_);
  }

 private:
  void take_assignment(ReadWord& word) {
    std::size_t end = 0;
    if (text_.empty() || !begins_name(text_[0].symbol)) return;
    while (end < text_.size() && in_name(text_[end].symbol)) ++end;
    const std::size_t name_end = end;
    if (end < text_.size() && text_[end].symbol == '[') end = Scan(text_).brackets(end, '[', ']');
    const bool append = end + 1 < text_.size() && text_[end].symbol == '+' && text_[end + 1].symbol == '=';
    const std::size_t equals = end + (append ? 1 : 0);
    if (equals >= text_.size() || text_[equals].symbol != '=') return;
    word.assignment = true;
    word.append = append;
    word.name = text_of(slice(text_, 0, name_end));
    if (end > name_end + 1) {
      const auto name = element(word.name, slice(text_, name_end + 1, end - 1), scope_);
      unknown_key_ = !name;
      word.name = name.value_or(word.name);
    }
    at_ = equals + 1;
  }

  // Reads ( word word ... ), over several lines, with comments between; [KEY]=VALUE sets an element.
  void read_array(ReadWord& word) {
    word.list = true;
    ++at_;
    while (at_ < text_.size() && text_[at_].symbol != ')') {
      const char symbol = text_[at_].symbol;
      if (is_blank(symbol) || symbol == '\n') {
        ++at_;
      } else if (symbol == '\\' && at_ + 1 < text_.size() && text_[at_ + 1].symbol == '\n') {
        at_ += 2;
      } else if (symbol == '#') {
        while (at_ < text_.size() && text_[at_].symbol != '\n') ++at_;
      } else {
        const std::size_t end = std::max(Scan(text_).word(at_), at_ + 1);  // a stray ; or & in the list is skipped
        const Letters raw = slice(text_, at_, end);
        at_ = end;
        if (take_element(word, raw)) continue;
        if (word.elements.empty())
          add_words(raw, word.fields);
        else  // has the place behind the element
          word.fields.push_back(kept_letters("$" + word.name, raw[0].line));
      }
    }
  }

  void add_words(const Letters& raw, Fields& fields) {
    const ReadWord inner = read_word(raw, false, scope_);
    fields.insert(fields.end(), inner.fields.begin(), inner.fields.end());
  }

  bool take_element(ReadWord& word, const Letters& raw) {
    if (raw[0].symbol != '[') return false;
    const std::size_t end = Scan(raw).brackets(0, '[', ']');
    if (end < 3 || end >= raw.size() || raw[end].symbol != '=') return false;
    const auto name = element(word.name, slice(raw, 1, end - 1), scope_);
    if (name)
      word.elements.emplace_back(*name, read_field(slice(raw, end + 1, raw.size()), scope_));
    else
      word.fields.push_back(kept_letters("$" + word.name, raw[0].line));
    return true;
  }

  // Whether {a,b} or {1..8} is in the word: the names that a shell makes of it are not read.
  bool has_braces() const {
    Scan scan(text_);
    for (std::size_t at = 0; at < text_.size(); at = scan.piece(at)) {
      if (text_[at].symbol != '{') continue;
      const std::string rest = text_of(slice(text_, at, text_.size()));
      const std::string inside = rest.substr(0, rest.find('}'));
      if (inside.size() < rest.size() &&
          (inside.find(',') != std::string::npos || inside.find("..") != std::string::npos))
        return true;
    }
    return false;
  }

  void read_fields() {
    while (at_ < text_.size()) {
      const char symbol = text_[at_].symbol;
      if (symbol == '\'') {
        read_single_quotes();
      } else if (symbol == '"') {
        read_double_quotes();
      } else if (symbol == '\\') {
        read_escape();
      } else if (symbol == '$' || symbol == '`') {
        read_dollar();
      } else {
        put(text_[at_++]);
      }
    }
  }

  void read_escape() {
    ++at_;
    if (at_ == text_.size()) return;
    if (text_[at_].symbol != '\n') put_quoted(text_[at_]);
    ++at_;
  }

  void read_single_quotes() {
    begin_field();
    for (++at_; at_ < text_.size() && text_[at_].symbol != '\'';) put_quoted(text_[at_++]);
    ++at_;
  }

  void read_double_quotes() {
    // "${LIST[@]}" of an empty list, and "$@", add no field.
    if (!is_whole_list()) begin_field();
    in_quotes_ = true;
    for (++at_; at_ < text_.size() && text_[at_].symbol != '"';) read_quoted_piece();
    in_quotes_ = false;
    ++at_;
  }

  void read_quoted_piece() {
    const char symbol = text_[at_].symbol;
    if (symbol == '\\' && at_ + 1 < text_.size()) {
      const char next = text_[at_ + 1].symbol;
      if (next != '"' && next != '\\' && next != '$' && next != '`' && next != '\n') put_quoted(text_[at_]);
      if (next != '\n') put_quoted(text_[at_ + 1]);
      at_ += 2;
    } else if (symbol == '$' || symbol == '`') {
      read_dollar();
    } else {
      put_quoted(text_[at_++]);
    }
  }

  bool is_whole_list() const {
    const std::size_t end = Scan(text_).double_quotes(at_);
    const std::string inside = text_of(slice(text_, at_ + 1, std::max(end, at_ + 2) - 1));
    return inside == "$@" || inside == "${@}" || (inside.starts_with("${") && inside.ends_with("[@]}"));
  }

  // Expands $NAME, ${...}, $((...)), $(...) and `...`.
  void read_dollar() {
    const std::size_t first = at_;
    if (text_[first].symbol == '`') {
      at_ = Scan(text_).back_quotes(first);
      return put_output(slice(text_, first + 1, std::max(at_, first + 2) - 1), first);
    }
    const char next = first + 1 < text_.size() ? text_[first + 1].symbol : ' ';
    if (next == '(') return read_bracket(first);
    if (next == '{') {
      at_ = Scan(text_).brackets(first + 1, '{', '}');
      return put_parameter(read_parameter(slice(text_, first + 2, std::max(at_, first + 3) - 1), scope_), first);
    }
    if (next == '\'' && !in_quotes_) {
      ++at_;
      const std::size_t end = Scan(text_).single_quotes(at_);
      if (text_of(slice(text_, at_, end)).find('\\') == std::string::npos) return read_single_quotes();
      at_ = end;
      return put_as_written(first);
    }
    if (begins_name(next)) {
      for (++at_; at_ < text_.size() && in_name(text_[at_].symbol);) ++at_;
    } else if (std::string_view("@*#?!$-0123456789").find(next) != std::string_view::npos) {
      at_ += 2;
    } else {
      ++at_;
      return put({text_[first].symbol, text_[first].line, next == '['});
    }
    put_parameter(read_parameter(slice(text_, first + 1, at_), scope_), first);
  }

  void read_bracket(std::size_t first) {
    at_ = Scan(text_).brackets(first + 1, '(', ')');
    const bool sum = at_ >= first + 5 && text_[first + 2].symbol == '(' && text_[at_ - 2].symbol == ')';
    if (!sum) return put_output(slice(text_, first + 2, std::max(at_, first + 3) - 1), first);
    const auto number = read_number(slice(text_, first + 3, at_ - 2), scope_);
    if (!number) return put_as_written(first);
    put_letters(letters_of(std::to_string(*number), 0), text_[first].line);
  }

  void put_output(const Letters& command, std::size_t first) {
    auto output = scope_.output_of(command);
    if (!output) return put_as_written(first);
    while (!output->empty() && output->back().symbol == '\n') output->pop_back();
    for (Letter& letter : *output)
      if (letter.line == 0) letter.line = text_[first].line;
    put_expanded({std::move(*output)});
  }

  void put_parameter(const Parameter& parameter, std::size_t first) {
    if (!parameter.fields) return put_as_written(first);
    Fields fields = *parameter.fields;
    if (parameter.is_new) {
      for (Letters& field : fields)
        for (Letter& letter : field) letter.line = text_[first].line;
    }
    if (parameter.joined && in_quotes_) fields = {join(fields)};
    put_expanded(fields);
  }

  static Letters join(const Fields& fields) {
    Letters joined;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) joined.push_back({' ', 0});
      joined.insert(joined.end(), fields[i].begin(), fields[i].end());
    }
    return joined;
  }

  void put_expanded(const Fields& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && (splitting_ || in_quotes_)) in_field_ = false;
      if (i > 0 && !splitting_ && !in_quotes_) put({' ', 0});
      if (in_quotes_) begin_field();
      if (!scope_.charge(values[i].size())) return;
      for (Letter letter : values[i]) {
        const bool splits = splitting_ && !in_quotes_ && !letter.kept && !letter.quoted;
        letter.quoted = letter.quoted || in_quotes_;
        if (splits && (is_blank(letter.symbol) || letter.symbol == '\n'))
          in_field_ = false;
        else
          put(letter);
      }
    }
  }

  void put_as_written(std::size_t first) {
    for (std::size_t i = first; i < std::min(at_, text_.size()); ++i) put({text_[i].symbol, text_[i].line, true});
  }
  void put_letters(const Letters& letters, int line) {
    for (const Letter& letter : letters) put({letter.symbol, line});
  }
  void put_quoted(Letter letter) {
    letter.quoted = true;
    put(letter);
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
  Scope& scope_;
  std::size_t at_ = 0;
  Fields fields_;
  bool in_field_ = false;
  bool in_quotes_ = false;
  bool unknown_key_ = false;
  bool splitting_;
};

}  // namespace

ReadWord read_word(const Letters& word, bool may_assign, Scope& scope) {
  return WordReader(word, scope, true).read(may_assign);
}

Letters read_text(const Letters& text, Scope& scope) { return WordReader(text, scope, false).read_quoted(); }

Letters read_field(const Letters& word, Scope& scope) {
  const ReadWord read = WordReader(word, scope, false).read(false);
  return read.fields.empty() ? Letters() : read.fields.front();
}

std::optional<std::int64_t> read_number(const Letters& formula, Scope& scope) {
  const Letters text = read_text(formula, scope);
  if (!is_known(text)) return std::nullopt;
  const auto value_of = [&scope](std::string_view name) -> std::optional<std::string> {
    const std::size_t key = name.find('[');
    const Parameter element = key == std::string_view::npos ? Parameter() : read_parameter(letters_of(name, 0), scope);
    const Fields* value = element.fields ? &*element.fields : scope.find(name);
    const bool known = value != nullptr && !value->empty() && is_known(value->front());
    if (!known) scope.miss(name);
    return known ? std::optional(text_of(value->front())) : std::nullopt;
  };
  const auto assign = [&scope](std::string_view name, std::int64_t value) {
    scope.assign(std::string(name), {letters_of(std::to_string(value), 0)});
  };
  return arithmetic(text_of(text), {value_of, assign});
}

}  // namespace plumbline::model::megatron
