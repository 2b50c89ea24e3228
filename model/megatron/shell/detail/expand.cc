// Expands the words of a script: quotes, variables, arrays, arithmetic, output of commands.
#include <fmt/format.h>

#include <cctype>
#include <span>

#include "model/base/text.h"
#include "model/megatron/shell/detail/reader.h"

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
  // `steps`: what is evaluated at most, of all values.
  Formula(std::string_view text, const std::function<std::optional<std::string>(std::string_view)>& value_of, int depth,
          int& steps)
      : text_(text), value_of_(value_of), depth_(depth), steps_(steps) {}

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
    if (at_end() || depth_ > deepest || --steps_ < 0) return std::nullopt;
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
    if (at_ < text_.size() && text_[at_] == '[') {
      const Letters rest = letters_of(text_.substr(at_));
      at_ = std::min(at_ + Scan(rest).brackets(0, '[', ']'), text_.size());
    }
    const auto value = value_of_(text_.substr(first, at_ - first));
    return value ? number_of(*value) : std::nullopt;
  }

  // A value is arithmetic too; one without text is 0.
  Number number_of(const std::string& value) {
    if (model::trimmed(value).empty()) return 0;
    if (integer(value)) return decimal(value);
    return Formula(value, value_of_, depth_, steps_).whole();
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
  int depth_;
  int& steps_;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const std::function<std::optional<std::string>(std::string_view)>& value_of) {
  int steps = 10'000;
  return Formula(text, value_of, 0, steps).whole();
}

namespace {

constexpr std::size_t most_names = 100;     // in a formula and in their values
constexpr std::size_t most_trimmed = 4096;  // letters of a value or formula: the work is their square

class Expander {
 public:
  Expander(const Letters& text, Reader& shell, bool splits) : text_(text), shell_(shell), splits_(splits) {}

  Fields word() {
    if (splits_ && has_braces()) {
      put_as_written(0, text_.size());
      return std::move(fields_);
    }
    if (symbol(0) == '~') put_as_written(0, at_ = 1);  // a home folder
    while (at_ < text_.size()) piece();
    return std::move(fields_);
  }

  Letters quoted_text() {
    in_quotes_ = true;
    while (at_ < text_.size())
      if (symbol(at_) == '"')
        ++at_;
      else
        quoted_piece();
    return joined(fields_);
  }

 private:
  char symbol(std::size_t at) const { return at < text_.size() ? text_[at].symbol : '\0'; }

  // Whether {a,b} or {1..8} is in the word: the words that a shell makes of it are not read.
  bool has_braces() const {
    const std::string text = text_of(text_);
    Scan scan(text_);
    for (std::size_t at = 0; at < text_.size(); at = scan.piece(at)) {
      if (symbol(at) != '{') continue;
      const std::size_t end = text.find('}', at);
      if (end == text.npos) return false;
      const std::string_view inside = std::string_view(text).substr(at, end - at);
      if (inside.find(',') != inside.npos || inside.find("..") != inside.npos) return true;
    }
    return false;
  }

  void piece() {
    switch (symbol(at_)) {
      case '\'':
        return single_quotes();
      case '"': {
        // "${LIST[@]}" of an empty list, and "$@", add no field.
        const std::string inside = text_of(slice(text_, at_ + 1, Scan(text_).piece(at_) - 1));
        const bool list = inside == "$@" || inside == "${@}" || (inside.starts_with("${") && inside.ends_with("[@]}"));
        if (!list) begin_field();
        in_quotes_ = true;
        for (++at_; at_ < text_.size() && symbol(at_) != '"';) quoted_piece();
        in_quotes_ = false;
        ++at_;
        return;
      }
      case '\\':
        if (++at_ < text_.size() && symbol(at_) != '\n') put_quoted(text_[at_]);
        ++at_;
        return;
      case '$':
      case '`':
        return dollar();
      default:
        put(text_[at_++]);
    }
  }

  void single_quotes() {
    begin_field();
    for (++at_; at_ < text_.size() && symbol(at_) != '\'';) put_quoted(text_[at_++]);
    ++at_;
  }

  void quoted_piece() {
    if (symbol(at_) == '\\' && at_ + 1 < text_.size()) {
      const char next = symbol(at_ + 1);
      if (std::string_view("\"\\$`\n").find(next) == std::string_view::npos) put_quoted(text_[at_]);
      if (next != '\n') put_quoted(text_[at_ + 1]);
      at_ += 2;
    } else if (symbol(at_) == '$' || symbol(at_) == '`') {
      dollar();
    } else {
      put_quoted(text_[at_++]);
    }
  }

  // Expands $NAME, ${...}, $((...)) and $[...], its older form, $(...) and `...`.
  void dollar() {
    const std::size_t first = at_;
    const char next = symbol(first) == '`' ? '`' : symbol(first + 1);
    if (next == '(' || next == '{' || next == '`' || next == '[') {
      at_ = Scan(text_).piece(first);
      const Letters inside = slice(text_, first + (next == '`' ? 1 : 2), at_ - 1);
      if (next == '{') return parameter(inside, first);
      const bool doubled = next == '(' && at_ >= first + 5 && symbol(first + 2) == '(' && symbol(at_ - 2) == ')';
      const bool expr = text_of(inside).starts_with("expr ");  // POSIX's program for sums, whose times is \*
      if (!doubled && !expr && next != '[') return output(inside, first);
      Letters formula = doubled ? slice(text_, first + 3, at_ - 2) : slice(inside, expr ? 5 : 0, inside.size());
      if (expr) std::erase_if(formula, [](const Letter& letter) { return letter.symbol == '\\'; });
      const auto number = shell_.number(formula);
      condition_ = shell_.missed_condition();
      return number ? put_fields({letters_of(std::to_string(*number))}, first) : put_as_written(first, at_);
    }
    if (next == '\'' && !in_quotes_) {
      at_ = Scan(text_).piece(first);
      return put_as_written(first, at_);
    }
    at_ = first + 1;
    const bool special = next != '\0' && std::string_view("@*#?!$-0123456789").find(next) != std::string_view::npos;
    if (special) ++at_;
    if (begins_name(next))
      while (in_name(symbol(at_))) ++at_;
    if (special || begins_name(next)) return parameter(slice(text_, first + 1, at_), first);
    put({'$', text_[first].line});
  }

  void output(const Letters& command, std::size_t first) {
    auto printed = shell_.output_of(command);
    if (!printed) return put_as_written(first, at_);
    while (!printed->empty() && printed->back().symbol == '\n') printed->pop_back();
    put_fields({std::move(*printed)}, first);
  }

  // Expands NAME, NAME[@], NAME[KEY], #NAME and the operators - = ? + # %; others are kept as they are written.
  void parameter(const Letters& inside, std::size_t first) {
    const auto symbol_at = [&inside](std::size_t at) { return at < inside.size() ? inside[at].symbol : '\0'; };
    const bool length = inside.size() > 1 && symbol_at(0) == '#';
    std::size_t at = length ? 1 : 0;
    std::string name;
    if (symbol_at(at) != '\0' && std::string_view("@*#?$!-").find(symbol_at(at)) != std::string_view::npos)
      name = symbol_at(at++);
    else
      while (in_name(symbol_at(at))) name += symbol_at(at++);
    bool joins = name == "*";
    if (joins) name = "@";
    bool all = name == "@";
    auto fields = shell_.fields_of(name);
    const bool keyed = symbol_at(at) == '[';
    if (keyed) {
      const std::size_t end = Scan(inside).brackets(at, '[', ']');
      const Letters key = slice(inside, at + 1, end - 1);
      at = end;
      joins = text_of(key) == "*";
      all = joins || text_of(key) == "@";
      if (!all) fields = shell_.element(name, key);
    }
    if (!fields && at == inside.size() && shell_.is_own(name, all)) {
      fields.emplace();
      shell_.take_default(name, {}, text_[first].line);
    }
    if (fields && !all && fields->size() > 1) fields->resize(1);
    const bool known = fields && are_known(*fields);
    condition_ = fields ? condition_of(joined(*fields)) : 0;
    const bool or_empty = symbol_at(at) == ':';
    const char op = or_empty && symbol_at(at + 1) != '\0' ? symbol_at(at + 1) : symbol_at(at);
    const bool has_default = std::string_view("-=?+").find(op) != std::string_view::npos && op != '\0' &&
                             (name == "@" || (!name.empty() && in_name(name[0]))) && !shell_.may_be_set(name);
    if (or_empty && std::string_view("-=?+").find(op) == std::string_view::npos)
      shell_.number(slice(inside, at + 1, inside.size()));  // a place in the value may set a variable, which is refused
    const bool plain = at == inside.size() && !length && fields;
    if (!known && (fields || !has_default)) shell_.miss(name);
    if (!plain && (fields ? !known : !has_default)) return put_as_written(first, at_);
    if (plain) return put_fields(*fields, first, joins);
    const std::size_t size = !fields || fields->empty() ? 0 : all ? fields->size() : fields->front().size();
    if (length)
      return at < inside.size() ? put_as_written(first, at_) : put_fields({letters_of(std::to_string(size))}, first);
    if (has_default) {
      const bool missing = !fields || fields->empty() || (or_empty && joined(*fields).empty());
      const Letters argument = slice(inside, at + (or_empty ? 2 : 1), inside.size());
      if (op == '+' && !fields) shell_.take_default(name, {}, text_[first].line);
      if (op == '+' && missing) return;
      if (op != '+' && !missing) return put_fields(*fields, first, joins);
      if (op == '?') return put_as_written(first, at_);
      const Fields given = in_quotes_ ? Fields{shell_.expand_text(argument)}
                           : splits_  ? shell_.expand(argument)
                                      : Fields{shell_.expand_one(argument)};
      if (op != '+' && !fields) shell_.take_default(name, joined(given), text_[first].line);
      if (op == '=' && keyed) return shell_.refuse(text_[first].line, "an assignment to an element in an expansion");
      if (op == '=') shell_.assign(name, {joined(given)});
      return put_fields(given, first, false, true);
    }
    const bool twice = symbol_at(at + 1) == op;
    const Letters pattern = shell_.expand_one(slice(inside, at + (twice ? 2 : 1), inside.size()));
    const bool too_long = std::ranges::any_of(*fields, [](const auto& one) { return one.size() > most_trimmed; });
    if (too_long || (op != '#' && op != '%') || or_empty || !is_known(pattern)) return put_as_written(first, at_);
    for (Letters& field : *fields) field = trimmed(field, std::string(twice ? 2 : 1, op), pattern);
    put_fields(*fields, first, joins);
  }

  // Puts what an expansion that begins at `first` gives. `whole`: fields that are empty count.
  void put_fields(Fields values, std::size_t first, bool joins = false, bool whole = false) {
    const auto separators = shell_.separators();
    if (joins && in_quotes_ && separators && values.size() > 1) {
      for (std::size_t i = 1; i < values.size(); ++i) {
        if (!separators->empty()) values[0].push_back(separators->front());
        values[0].insert(values[0].end(), values[i].begin(), values[i].end());
      }
      values.resize(1);
    }
    if (joins && in_quotes_) values = {joined(values)};
    if (separators && splits_ && !in_quotes_) shell_.refuse(text_[first].line, "an IFS of the script's own");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && (splits_ || in_quotes_)) in_field_ = false;
      if (i > 0 && !splits_ && !in_quotes_) put({' ', 0});
      if (in_quotes_ || whole) begin_field();
      if (!shell_.charge(values[i].size())) return;
      for (Letter letter : values[i]) {
        const bool splits = splits_ && !in_quotes_ && !letter.kept && !letter.quoted;
        letter.quoted = letter.quoted || in_quotes_;
        if (letter.line == 0) letter.line = text_[first].line;
        if (splits && (is_blank(letter.symbol) || letter.symbol == '\n'))
          in_field_ = false;
        else
          put(letter);
      }
    }
  }

  // What is not expanded must not set a variable; the expansion itself may, of which nothing is known.
  void put_as_written(std::size_t first, std::size_t end) {
    std::string nested = text_of(slice(text_, std::min(first + 1, end), end));
    const bool apart = symbol(first) == '`' || (nested.starts_with('(') && !nested.starts_with("(("));
    if (nested.starts_with("{!")) nested.insert(0, "$");  // sets a variable whose name is not known
    if (!apart && shell_.sets_within(nested)) shell_.refuse(text_[first].line, "an assignment within an expansion");
    for (std::size_t i = first; i < std::min(end, text_.size()); ++i)
      put({symbol(i), text_[i].line, true, false, text_[i].condition > 0 ? text_[i].condition : condition_});
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
  Reader& shell_;
  bool splits_;
  std::size_t at_ = 0;
  Fields fields_;
  int condition_ = 0;  // of the value at hand
  bool in_field_ = false, in_quotes_ = false;
};

}  // namespace

Fields Reader::expand(const Letters& word) { return Expander(word, *this, true).word(); }
Letters Reader::expand_one(const Letters& word) { return joined(Expander(word, *this, false).word()); }
Letters Reader::expand_text(const Letters& text) { return Expander(text, *this, false).quoted_text(); }

std::optional<std::int64_t> Reader::number(const Letters& formula) {
  const Letters text = expand_text(formula);
  const std::string written = text_of(text);
  std::set<std::string> seen;
  if (sets_variable(written) || sets_by_value(written, seen))
    refuse(line(), fmt::format("arithmetic that sets a variable ('{}')", model::trimmed(written)));
  missed_condition_ = condition_of(text);
  if (broken_ || !is_known(text) || text.size() > most_trimmed) return std::nullopt;
  return arithmetic(written, [this](std::string_view name) -> std::optional<std::string> {
    const std::size_t key = name.find('[');
    const std::string list(name.substr(0, key));
    const auto fields = key == std::string_view::npos
                            ? fields_of(list)
                            : element(list, letters_of(name.substr(key + 1, name.size() - key - 2)));
    if (fields && fields->empty()) return "";
    if (fields && is_known(fields->front())) return text_of(fields->front());
    miss(list);
    missed_condition_ = fields ? condition_of(joined(*fields)) : 0;
    return std::nullopt;
  });
}

// Follows the values of names as arithmetic does.
bool Reader::sets_by_value(std::string_view formula, std::set<std::string>& seen) const {
  for (std::size_t end = 0; end < formula.size(); ++end) {
    const std::size_t first = end;
    while (end < formula.size() && in_name(formula[end])) ++end;
    std::string name(formula.substr(first, end - first));
    if (name.empty() || !begins_name(name[0]) || seen.contains(name)) continue;
    const auto fields = fields_of(name);
    if (seen.size() == most_names) return true;  // which is not followed further
    seen.insert(std::move(name));
    for (const Letters& field : fields.value_or(Fields())) {
      if (std::ranges::none_of(field, begins_name, &Letter::symbol)) continue;
      const std::string value = text_of(field);
      if (sets_variable(value) || sets_by_value(value, seen)) return true;
    }
  }
  return false;
}

bool Reader::sets_within(std::string_view word) const {
  return sets_variable_within(word) || std::ranges::any_of(formulas_within(word), [this](std::string_view formula) {
           std::set<std::string> seen;
           return sets_by_value(formula, seen);
         });
}

}  // namespace plumbline::model::megatron
