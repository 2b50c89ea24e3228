#include "model/megatron/shell.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/megatron/detail/shell_letters.h"
#include "model/megatron/detail/shell_words.h"

namespace plumbline::model::megatron {
namespace {

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

// Words after which a command begins.
constexpr std::array<std::string_view, 8> connectors = {"then", "else", "do", "{", "!", "time", "if", "while"};
constexpr std::array<std::string_view, 5> branches = {"if", "for", "while", "case", "until"};
// Assignments may follow these.
constexpr std::array<std::string_view, 5> declarations = {"export", "local", "readonly", "declare", "set"};
constexpr std::size_t longest = 1'000'000;
constexpr std::size_t deepest = 8;  // limit on nested strings of commands

Word word_of(const Letters& field) { return {text_of(field), field.empty() ? 0 : field.front().line}; }

class ScriptReader {
 public:
  ScriptReader(const std::string& path, const Definitions& definitions) : path_(path) {
    for (const auto& [name, value] : definitions) variables_[name] = {letters_of(value, 0)};
    fixed_ = definitions;
  }

  std::optional<Error> read(const Letters& text, const Command& prefix, std::size_t depth) {
    std::size_t at = 0;
    while (at < text.size()) {
      Fields command;
      if (auto error = read_command(text, at, command)) return error;
      if (command.empty()) continue;
      if (auto error = finish(command, prefix, depth)) return error;
    }
    return std::nullopt;
  }

  Script take() {
    for (const auto& [name, fields] : variables_) script_.variables[name] = fields.empty() ? "" : text_of(fields[0]);
    return std::move(script_);
  }

 private:
  // Reads one command up to its end; at least one letter is consumed.
  std::optional<Error> read_command(const Letters& text, std::size_t& at, Fields& command) {
    bool may_assign = true;
    declaring_ = false;
    while (at < text.size()) {
      const char symbol = text[at].symbol;
      if (is_blank(symbol)) {
        ++at;
      } else if (symbol == '\\' && at + 1 < text.size() && is_line_end(text, at + 1)) {
        at += text[at + 1].symbol == '\r' ? 3 : 2;
      } else if (symbol == '#') {
        skip_comment(text, at);
      } else if (ends_command(symbol)) {
        ++at;
        if (symbol == '\n') skip_here_documents(text, at);
        return std::nullopt;
      } else if (const std::size_t sign = redirection(text, at); sign > 0) {
        at = sign - 1;
        redirect(text, at);
      } else {
        const ReadWord word = read_word(text, at, may_assign, variables_);
        if (word.unclosed) return unclosed(text, *word.unclosed);
        at = std::max(word.end, at + 1);
        if (word.assignment) {
          assign(word);
          if (auto error = too_long(word.name, text[at - 1].line)) return error;
          continue;
        }
        may_assign = take_words(word.fields, command, may_assign);
      }
    }
    return std::nullopt;
  }

  static bool is_line_end(const Letters& text, std::size_t at) {
    if (text[at].symbol == '\r') ++at;
    return at < text.size() && text[at].symbol == '\n';
  }

  // Appends the words to the command; returns whether an assignment may follow.
  bool take_words(const Fields& fields, Fields& command, bool may_assign) {
    for (const Letters& field : fields) {
      const std::string text = text_of(field);
      if (may_assign && is_one_of(text, branches) && script_.first_branch == 0)
        script_.first_branch = field.front().line;
      const bool declares = is_one_of(text, declarations);
      declaring_ = declaring_ || declares;
      const bool before = declares || is_one_of(text, connectors) || (declaring_ && text.starts_with('-'));
      if (may_assign && command.empty() && before) continue;
      command.push_back(field);
      may_assign = false;
    }
    return may_assign;
  }

  void skip_comment(const Letters& text, std::size_t& at) {
    Letters comment;
    const bool whole_line = at == 0 || text[at - 1].symbol == '\n';
    for (++at; at < text.size() && text[at].symbol != '\n'; ++at) comment.push_back(text[at]);
    if (whole_line && !comment.empty()) script_.comments.push_back(word_of(comment));
  }

  // Returns the position after the < or > at `at`, with or without a stream number before it; 0 for none.
  static std::size_t redirection(const Letters& text, std::size_t at) {
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at].symbol)) != 0) ++at;
    return at < text.size() && (text[at].symbol == '<' || text[at].symbol == '>') ? at + 1 : 0;
  }

  // Skips a file name after < or >, or reads the mark of a here-document.
  void redirect(const Letters& text, std::size_t& at) {
    const std::size_t first = at;
    while (at < text.size() && (text[at].symbol == '<' || text[at].symbol == '>' || text[at].symbol == '&' ||
                                text[at].symbol == '|' || text[at].symbol == '-'))
      ++at;
    const std::string sign =
        text_of({text.begin() + static_cast<std::ptrdiff_t>(first), text.begin() + static_cast<std::ptrdiff_t>(at)});
    while (at < text.size() && is_blank(text[at].symbol)) ++at;
    if (at == text.size() || ends_command(text[at].symbol)) return;
    const ReadWord target = read_word(text, at, false, variables_);
    at = std::max(target.end, at + 1);
    if ((sign == "<<" || sign == "<<-") && !target.fields.empty()) here_ends_.push_back(text_of(target.fields[0]));
  }

  void skip_here_documents(const Letters& text, std::size_t& at) {
    for (const std::string& mark : std::exchange(here_ends_, {})) {
      while (at < text.size()) {
        std::string line;
        for (; at < text.size() && text[at].symbol != '\n'; ++at) line += text[at].symbol;
        if (at < text.size()) ++at;
        line.erase(0, line.find_first_not_of('\t') == std::string::npos ? 0 : line.find_first_not_of('\t'));
        if (line == mark) break;
      }
    }
  }

  void assign(const ReadWord& word) {
    if (fixed_.contains(word.name)) return;
    Fields& value = variables_[word.name];
    if (!word.append) {
      value = word.fields;
    } else if (word.list || value.empty()) {
      value.insert(value.end(), word.fields.begin(), word.fields.end());
    } else {
      for (const Letters& field : word.fields) value[0].insert(value[0].end(), field.begin(), field.end());
    }
  }

  // Limits a value's length, because a script that doubles a variable again and again would fill the memory.
  std::optional<Error> too_long(const std::string& name, int line) const {
    std::size_t letters = 0;
    const auto value = variables_.find(name);
    if (value == variables_.end()) return std::nullopt;
    for (const Letters& field : value->second) letters += field.size() + 1;
    if (letters <= longest) return std::nullopt;
    return Error{ErrorKind::input, "'" + name + "' grows over a million letters", path_, line, "", ""};
  }

  // Keeps a command; the text after -c or eval is read as separate commands.
  std::optional<Error> finish(const Fields& command, const Command& prefix, std::size_t depth) {
    Command words = prefix;
    const std::string first = text_of(command.front());
    if (first == "eval" && depth < deepest) {
      Letters joined;
      for (std::size_t i = 1; i < command.size(); ++i) {
        joined.insert(joined.end(), command[i].begin(), command[i].end());
        joined.push_back({' ', 0});
      }
      return read(joined, words, depth + 1);
    }
    for (std::size_t i = 0; i < command.size(); ++i) {
      if (i > 0 && is_command_option(text_of(command[i - 1])) && depth < deepest && has_space(command[i]))
        return read(command[i], words, depth + 1);
      words.push_back(word_of(command[i]));
    }
    script_.commands.push_back(std::move(words));
    return std::nullopt;
  }
  static bool is_command_option(std::string_view word) { return word == "-c" || word == "-lc" || word == "-xc"; }
  static bool has_space(const Letters& field) {
    return std::ranges::any_of(field, [](const Letter& letter) { return is_blank(letter.symbol); });
  }

  std::optional<Error> unclosed(const Letters& text, std::size_t at) const {
    return Error{ErrorKind::input,
                 std::string("'") + text[at].symbol + "' is not closed",
                 path_,
                 text[at].line,
                 "",
                 "the rest of the script would be one word"};
  }

  std::string path_;
  Definitions fixed_;
  Variables variables_;
  bool declaring_ = false;  // after export, declare ...: their options may precede an assignment
  std::vector<std::string> here_ends_;
  Script script_;
};

}  // namespace

Result<Script> read_script(std::string_view text, const std::string& path, const Definitions& definitions) {
  ScriptReader reader(path, definitions);
  if (const auto error = reader.read(letters_of(text, 1), {}, 0)) return tl::unexpected(*error);
  return reader.take();
}

}  // namespace plumbline::model::megatron
