#include "model/megatron/shell/detail/script_reader.h"

#include <fmt/format.h>

#include <cctype>

namespace plumbline::model::megatron {
namespace {

// Returns a word without line ends behind a backslash in its name: they are no part of it.
Letters without_continuations(Letters word) {
  for (std::size_t at = 0; at + 1 < word.size() && (in_name(word[at].symbol) || word[at].symbol == '\\'); ++at) {
    const auto here = word.begin() + static_cast<std::ptrdiff_t>(at);
    if (word[at].symbol == '\\' && word[at + 1].symbol != '\n') break;
    if (word[at].symbol != '\\') continue;
    word.erase(here, here + 2);
    --at;
  }
  return word;
}

}  // namespace

std::string ScriptReader::written(std::size_t first) const {
  std::string text = text_of(slice(text_, first, at_));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

void ScriptReader::fail(std::size_t at, std::string message, std::string hint) {
  if (!error_)
    error_ = Error{ErrorKind::input, std::move(message), path_, at < text_.size() ? text_[at].line : line(), "",
                   std::move(hint)};
  at_ = text_.size();
}

std::string ScriptReader::found() {
  const std::string word = peek();
  return word.empty() ? std::string(1, symbol()) : word;
}

void ScriptReader::skip_blanks() {
  while (at_ < text_.size()) {
    const bool continued = symbol() == '\\' && (symbol(1) == '\n' || (symbol(1) == '\r' && symbol(2) == '\n'));
    if (is_blank(symbol())) {
      ++at_;
    } else if (continued) {
      at_ += symbol(1) == '\r' ? 3 : 2;
    } else if (symbol() == '#') {
      skip_comment();
    } else {
      return;
    }
  }
}

void ScriptReader::skip_comment() {
  const bool whole_line = at_ == 0 || text_[at_ - 1].symbol == '\n';
  const std::size_t first = ++at_;
  while (at_ < text_.size() && symbol() != '\n') ++at_;
  if (whole_line && at_ > first) out_.comments.push_back(slice(text_, first, at_));
}

void ScriptReader::new_line() {
  ++at_;
  for (const auto& [index, mark] : std::exchange(pending_, {}))
    out_.documents[index].text = here_lines(text_, at_, mark);
}

void ScriptReader::skip_lines() {
  for (skip_blanks(); at_ < text_.size() && symbol() == '\n'; skip_blanks()) new_line();
}

std::string ScriptReader::peek() {
  skip_blanks();
  std::size_t end = at_;
  std::string word;
  for (; end < text_.size() && !is_blank(text_[end].symbol) && !ends_command(text_[end].symbol); ++end) {
    const char letter = text_[end].symbol;
    if (std::string_view("'\"\\$`<>").find(letter) != std::string_view::npos) return "";
    word += letter;
    if (word.size() > 200) return "";
  }
  return word;
}

bool ScriptReader::take(std::string_view word) {
  if (peek() != word) return false;
  at_ += word.size();
  return true;
}

bool ScriptReader::take_symbols(std::string_view symbols) {
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (symbol(i) != symbols[i]) return false;
  at_ += symbols.size();
  return true;
}

void ScriptReader::expect(std::string_view word, std::string_view of, int from) {
  skip_lines();
  if (error_ || take(word)) return;
  fail(at_,
       fmt::format("'{}' of line {} has no '{}'{}", of, from, word,
                   at_ < text_.size() ? fmt::format(" before '{}'", found()) : ""),
       "");
}

Letters ScriptReader::raw_word() {
  const std::size_t first = at_;
  at_ = std::max(scan_.word(at_), at_ + 1);
  if (const auto open = scan_.unclosed())
    fail(*open, fmt::format("'{}' is not closed", text_[*open].symbol), "the rest of the script would be one word");
  return without_continuations(slice(text_, first, std::min(std::max(at_, first), text_.size())));
}

void ScriptReader::redirections(Node& node) {
  for (skip_blanks(); !error_ && redirection(node); skip_blanks()) {
  }
}

bool ScriptReader::redirection(Node& node) {
  std::size_t sign = 0;
  while (std::isdigit(static_cast<unsigned char>(symbol(sign))) != 0) ++sign;
  if (symbol() == '&' && symbol(1) == '>') sign = 1;
  const bool process = sign == 0 && symbol(1) == '(';
  if ((symbol(sign) != '<' && symbol(sign) != '>') || process) return false;
  if (symbol(sign) == '>' && (sign == 0 || symbol() != '2')) node.silent = true;
  at_ += sign;
  if (HereMark mark = here_mark(text_, at_); !mark.text.empty()) {
    at_ = mark.end;
    node.document = out_.documents.size();
    pending_.emplace_back(out_.documents.size(), mark.text);
    out_.documents.push_back({{}, mark.quoted});
    return true;
  }
  const bool string = symbol() == '<' && symbol(1) == '<' && symbol(2) == '<';
  while (symbol() == '<' || symbol() == '>' || symbol() == '&' || (symbol() == '|' && symbol(1) != '|')) ++at_;
  skip_blanks();
  if (at_ == text_.size() || (ends_command(symbol()) && symbol() != '(')) return true;
  const Letters target = raw_word();
  if (string) {
    node.document = out_.documents.size();
    out_.documents.push_back({target, false});
  }
  return true;
}

}  // namespace plumbline::model::megatron
