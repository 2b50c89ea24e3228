#include "model/megatron/shell/detail/tokens.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::model::megatron {
namespace {

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
      } else if (sign()) {
        put(TokenKind::sign, first);
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

  bool sign() {
    for (const std::string_view sign : {";;&", ";;", ";&", "&&", "||", "|&", "\n", ";", "&", "|", "(", ")", "<", ">"}) {
      std::size_t length = 0;
      while (length < sign.size() && symbol(length) == sign[length]) ++length;
      const bool process = (sign == "<" || sign == ">") && !test_;
      if (length < sign.size() || process) continue;
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
    std::erase_if(mark, [](char letter) { return letter == '\'' || letter == '"' || letter == '\\'; });
    if (document_) marks_.push_back(mark);
    return true;
  }

  // Skips the here-documents of the line before.
  void skip_documents() {
    for (const std::string& mark : std::exchange(marks_, {}))
      for (std::string line; at_ < text_.size() && line != mark; ++at_) {
        const std::size_t first = at_;
        while (at_ < text_.size() && symbol() != '\n') ++at_;
        line = text_of(slice(text_, first, at_));
        line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
        if (line.ends_with('\r')) line.pop_back();
      }
    at_ = std::min(at_, text_.size());
  }

  const Letters& text_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
  std::vector<std::string> marks_;  // of here-documents that begin behind this line
  std::optional<Letter> unclosed_;
  bool silent_ = false, document_ = false;
  bool test_ = false;  // in [[ ]]
};

}  // namespace

Source::Source(Letters letters) : text(std::move(letters)), tokens(Tokenizer(text).run()) {}

bool Source::assigns(const std::string& name) {
  if (!assigned) {
    assigned.emplace();
    std::string word;
    for (const Letter& letter : text) {
      if (letter.symbol == '=' && !word.empty()) assigned->insert(word);
      if (in_name(letter.symbol))
        word += letter.symbol;
      else
        word.clear();
    }
  }
  return assigned->contains(name);
}

}  // namespace plumbline::model::megatron
