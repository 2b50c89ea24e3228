#include <fmt/format.h>
#include <fnmatch.h>  // POSIX

#include <cctype>

#include "model/megatron/shell/detail/reader.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_nesting = 100;  // a limit on quotes in brackets in quotes

class Tokenizer {
 public:
  explicit Tokenizer(const Letters& text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const std::size_t first = at_;
      if (is_blank(symbol())) {
        ++at_;
      } else if (symbol() == '\\' && (symbol(1) == '\n' || (symbol(1) == '\r' && symbol(2) == '\n'))) {
        at_ += symbol(1) == '\r' ? 3 : 2;
      } else if (symbol() == '#') {
        while (at_ < text_.size() && symbol() != '\n') ++at_;
      } else if (redirection()) {
        put(TokenKind::redirection, first);
      } else if (is_arithmetic()) {
        put(TokenKind::arithmetic, first);
      } else if (control()) {
        put(TokenKind::control, first);
        if (text_[first].symbol == '\n') skip_documents();
      } else {
        word();
        put(TokenKind::word, first);
        if (tokens_.back().raw == "[[" || tokens_.back().raw == "]]") test_ = tokens_.back().raw == "[[";
      }
      if (!tokens_.empty() && tokens_.back().kind == TokenKind::unclosed) break;
    }
    return std::move(tokens_);
  }

 private:
  char symbol(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead].symbol : '\0'; }

  void put(TokenKind kind, std::size_t first) {
    Token token{.kind = kind, .text = slice(text_, first, at_), .raw = {}, .first = first, .end = at_};
    if (kind == TokenKind::arithmetic) token.text = slice(text_, first + 2, at_ - 2);
    for (std::size_t i = 0; kind == TokenKind::word && i + 1 < token.text.size(); ++i) {
      if (token.text[i].symbol == '\'' || token.text[i].symbol == '"') break;
      if (token.text[i].symbol != '\\') continue;
      const auto here = token.text.begin() + static_cast<std::ptrdiff_t>(i--);
      if ((here + 1)->symbol == '\n')
        token.text.erase(here, here + 2);
      else
        i += 2;
    }
    token.raw = text_of(token.text);
    token.silent = kind == TokenKind::redirection && silent_;
    token.document = kind == TokenKind::redirection && document_;
    if (unclosed_) token = {.kind = TokenKind::unclosed, .text = {*unclosed_}, .raw = {}};
    tokens_.push_back(std::move(token));
  }

  void word() {
    Scan scan(text_);
    at_ = std::max(scan.word(at_), at_ + 1);
    if (scan.unclosed()) unclosed_ = text_[std::min(*scan.unclosed(), text_.size() - 1)];
  }

  bool control() {
    for (const std::string_view op : {";;&", ";;", ";&", "&&", "||", "|&", "\n", ";", "&", "|", "(", ")", "<", ">"}) {
      std::size_t length = 0;
      while (length < op.size() && symbol(length) == op[length]) ++length;
      const bool process = (op == "<" || op == ">") && !test_;
      if (length < op.size() || process) continue;
      at_ += length;
      return true;
    }
    return false;
  }

  // (( ... )) where a command or the head of a loop may begin.
  bool is_arithmetic() {
    if (symbol() != '(' || symbol(1) != '(' || test_) return false;
    const std::size_t end = Scan(text_).brackets(at_, '(', ')');
    if (end < at_ + 4 || end > text_.size() || text_[end - 2].symbol != ')') return false;
    at_ = end;
    return true;
  }

  // Skips a redirection with its target.
  bool redirection() {
    std::size_t length = 0;
    while (std::isdigit(static_cast<unsigned char>(symbol(length))) != 0) ++length;
    if (symbol() == '&' && symbol(1) == '>') length = 1;
    const bool process = length == 0 && symbol(1) == '(';
    if (test_ || process || (symbol(length) != '<' && symbol(length) != '>')) return false;
    silent_ = symbol(length) == '>' && (length == 0 || symbol() != '2');
    at_ += length;
    document_ = symbol() == '<' && symbol(1) == '<' && symbol(2) != '<';
    while (symbol() != '\0' && std::string_view("<>&-").find(symbol()) != std::string_view::npos) ++at_;
    if (symbol() == '|' && symbol(1) != '|') ++at_;
    while (is_blank(symbol())) ++at_;
    if (at_ == text_.size() || (ends_command(symbol()) && symbol() != '(')) return true;
    const std::size_t first = at_;
    word();
    std::string mark = text_of(slice(text_, first, at_));
    const auto quotes = std::erase_if(mark, [](char one) { return one == '\'' || one == '"' || one == '\\'; });
    if (document_) marks_.push_back({mark, tokens_.size(), quotes == 0});
    return true;
  }

  // Skips the here-documents of the line before, and keeps what is expanded in them.
  void skip_documents() {
    for (const Mark& mark : std::exchange(marks_, {})) {
      const std::size_t begin = at_;
      for (std::string line; at_ < text_.size() && line != mark.word; ++at_) {
        const std::size_t first = at_;
        while (at_ < text_.size() && symbol() != '\n') ++at_;
        line = text_of(slice(text_, first, at_));
        line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
        if (line.ends_with('\r')) line.pop_back();
      }
      at_ = std::min(at_, text_.size());
      if (mark.expands && mark.token < tokens_.size()) tokens_[mark.token].body = text_of(slice(text_, begin, at_));
    }
  }

  const Letters& text_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
  // Of here-documents that begin behind this line.
  struct Mark {
    std::string word;
    std::size_t token;  // the redirection
    bool expands;
  };
  std::vector<Mark> marks_;
  std::optional<Letter> unclosed_;
  bool silent_ = false, document_ = false;
  bool test_ = false;  // in [[ ]]
};

}  // namespace

Letters letters_of(std::string_view text, int first_line) {
  Letters letters;
  letters.reserve(text.size());
  int line = first_line;
  for (const char symbol : text) {
    letters.push_back({symbol, line});
    if (symbol == '\n' && first_line > 0) ++line;
  }
  return letters;
}

Letters open_value(const std::string& name, int line, int condition) {
  Letters letters = letters_of("$" + name, line);
  for (Letter& letter : letters) {
    letter.kept = true;
    letter.condition = condition;
  }
  return letters;
}

std::string text_of(const Letters& letters) {
  std::string text;
  text.reserve(letters.size());
  for (const Letter& letter : letters) text += letter.symbol;
  return text;
}

Letters slice(const Letters& text, std::size_t first, std::size_t end) {
  end = std::min(end, text.size());
  if (first >= end) return {};
  return {text.begin() + static_cast<std::ptrdiff_t>(first), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

Letters joined(const Fields& fields, std::size_t first) {
  Letters text;
  for (std::size_t i = first; i < fields.size(); ++i) {
    if (i > first) text.push_back({' ', fields[i].empty() ? 0 : fields[i].front().line});
    text.insert(text.end(), fields[i].begin(), fields[i].end());
  }
  return text;
}

bool is_known(const Letters& letters) { return std::ranges::all_of(letters, &Letter::is_known); }
bool are_known(const Fields& fields) { return std::ranges::all_of(fields, is_known); }

int condition_of(const Letters& letters) {
  const auto open = std::ranges::find_if(letters, [](const Letter& letter) { return letter.condition > 0; });
  return open == letters.end() ? 0 : open->condition;
}

bool is_blank(char symbol) { return symbol == ' ' || symbol == '\t' || symbol == '\r'; }
bool in_name(char symbol) { return std::isalnum(static_cast<unsigned char>(symbol)) != 0 || symbol == '_'; }
bool begins_name(char symbol) { return in_name(symbol) && std::isdigit(static_cast<unsigned char>(symbol)) == 0; }
bool ends_command(char symbol) {
  return symbol != '\0' && std::string_view("\n;&|()").find(symbol) != std::string_view::npos;
}

bool matches(const Letters& pattern, const Letters& text) {
  std::string glob;
  for (const Letter& letter : pattern) {
    if (letter.quoted) glob += '\\';
    glob += letter.symbol;
  }
  return ::fnmatch(glob.c_str(), text_of(text).c_str(), 0) == 0;
}

Letters trimmed(const Letters& value, std::string_view op, const Letters& pattern) {
  const bool front = op[0] == '#', longest = op.size() > 1;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    if (front && matches(pattern, slice(value, 0, length))) return slice(value, length, value.size());
    if (!front && matches(pattern, slice(value, value.size() - length, value.size())))
      return slice(value, 0, value.size() - length);
  }
  return value;
}

std::size_t Scan::word(std::size_t at) {
  const std::size_t first = at;
  while (at < text_.size()) {
    const char here = symbol(at);
    const bool list = here == '(' && at > first && symbol(at - 1) == '=';
    const bool process = (here == '<' || here == '>') && at == first && symbol(at + 1) == '(';
    if (list || process) {
      at = brackets(list ? at : at + 1, '(', ')');
    } else if (is_blank(here) || ends_command(here) || here == '<' || here == '>') {
      return at;
    } else {
      at = piece(at);
    }
  }
  return at;
}

bool sets_variable(std::string_view formula) {
  for (std::size_t i = 0; i + 1 < formula.size(); ++i) {
    const bool steps = (formula[i] == '+' || formula[i] == '-') && formula[i + 1] == formula[i];
    const char before = i > 0 ? formula[i - 1] : '\0';
    const bool shifts = i > 1 && (before == '<' || before == '>') && formula[i - 2] == before;
    const bool compares = formula[i + 1] == '=' || before == '=' || before == '!' || before == '<' || before == '>';
    if (steps || (formula[i] == '=' && (!compares || shifts))) return true;
  }
  return false;
}

namespace {

// Returns the position after the bracket that closes the one at `at`.
std::size_t behind_brackets(std::string_view word, std::size_t at, char open, char close) {
  int depth = 0;
  for (std::size_t end = at; end < word.size(); ++end) {
    depth += word[end] == open ? 1 : word[end] == close ? -1 : 0;
    if (depth == 0) return end + 1;
  }
  return word.size();
}

bool is_escaped(std::string_view word, std::size_t at) {
  std::size_t first = at;
  while (first > 0 && word[first - 1] == '\\') --first;
  return (at - first) % 2 == 1;
}

}  // namespace

std::vector<std::string_view> formulas_within(std::string_view word) {
  std::vector<std::string_view> formulas;
  for (std::size_t at = word.find('$'); at != word.npos; at = word.find('$', at + 1)) {
    const bool doubled = word.substr(at).starts_with("$((");
    if (is_escaped(word, at) || (!doubled && !word.substr(at).starts_with("$["))) continue;
    const std::size_t end = doubled ? behind_brackets(word, at + 1, '(', ')') : behind_brackets(word, at + 1, '[', ']');
    const std::size_t first = at + (doubled ? 3 : 2), marks = doubled ? 2 : 1;
    if (end >= first + marks) formulas.push_back(word.substr(first, end - marks - first));
  }
  return formulas;
}

bool sets_variable_within(std::string_view word) {
  if (std::ranges::any_of(formulas_within(word), sets_variable)) return true;
  for (std::size_t at = word.find("${"); at != word.npos; at = word.find("${", at + 1)) {
    if (is_escaped(word, at)) continue;
    std::size_t end = at + 2;
    if (word.substr(end).starts_with('!')) ++end;
    while (end < word.size() && in_name(word[end])) ++end;
    if (word.substr(end).starts_with('[')) end = behind_brackets(word, end, '[', ']');
    if (word.substr(end).starts_with(":=") || word.substr(end).starts_with('=')) return true;
  }
  return false;
}

std::size_t Scan::piece(std::size_t at) {
  switch (symbol(at)) {
    case '\\':
      return std::min(at + 2, text_.size());
    case '\'':
    case '"':
    case '`':
      return quotes(at);
    case '$':
      if (symbol(at + 1) == '(') return brackets(at + 1, '(', ')');
      if (symbol(at + 1) == '{') return brackets(at + 1, '{', '}');
      if (symbol(at + 1) == '[') return brackets(at + 1, '[', ']');
      return symbol(at + 1) == '\'' ? quotes(at + 1) : at + 1;
    default:
      return at + 1;
  }
}

std::size_t Scan::not_closed(std::size_t at) {
  if (!unclosed_) unclosed_ = at;
  return text_.size();
}

std::size_t Scan::quotes(std::size_t at) {
  if (++depth_ > deepest_nesting) return not_closed(at);
  const char quote = symbol(at);
  std::size_t end = at + 1;
  while (end < text_.size() && symbol(end) != quote) {
    const bool escape = quote == '`' && symbol(end) == '\\';
    // In double quotes an apostrophe stands for itself.
    const bool apostrophe = symbol(end) == '\'' || (symbol(end) == '$' && symbol(end + 1) == '\'');
    end = escape ? end + 2 : quote != '"' || apostrophe ? end + 1 : piece(end);
  }
  --depth_;
  return end < text_.size() ? end + 1 : not_closed(at);
}

std::size_t Scan::brackets(std::size_t at, char open, char close) {
  if (++depth_ > deepest_nesting) return not_closed(at);
  int levels = 1;
  std::size_t end = at + 1;
  while (end < text_.size() && levels > 0) {
    const char here = symbol(end);
    if (here == '#' && open == '(' && (is_blank(symbol(end - 1)) || symbol(end - 1) == '\n')) {
      while (end < text_.size() && symbol(end) != '\n') ++end;
      continue;
    }
    levels += here == open ? 1 : here == close ? -1 : 0;
    end = here == open || here == close ? end + 1 : piece(end);
  }
  --depth_;
  return levels == 0 ? end : not_closed(at);
}

Source::Source(Letters letters) : text(std::move(letters)), tokens(Tokenizer(text).run()) {}

std::vector<std::string> script_parameters(std::string_view text) {
  std::map<std::int64_t, std::string> named;
  for (std::string_view line : lines_of(text)) {
    if (line.starts_with("export ")) line.remove_prefix(7);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0 || !begins_name(line[0]) ||
        !std::ranges::all_of(line.substr(0, equals), in_name))
      continue;
    std::string value(model::trimmed(line.substr(equals + 1, line.find_first_of(" #", equals) - equals - 1)));
    std::erase_if(value, [](char one) { return one == '"' || one == '{' || one == '}'; });
    const auto place = value.starts_with('$') ? integer(std::string_view(value).substr(1)) : std::nullopt;
    if (place && *place > 0 && *place < 1000) named.emplace(*place, line.substr(0, equals));
  }
  std::vector<std::string> parameters;
  for (std::int64_t place = 1; !named.empty() && place <= named.rbegin()->first; ++place)
    parameters.push_back(named.contains(place) ? named[place] : fmt::format("${}", place));
  return parameters;
}

}  // namespace plumbline::model::megatron
