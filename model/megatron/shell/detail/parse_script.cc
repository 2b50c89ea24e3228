#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/detail/scan.h"
#include "model/megatron/shell/detail/syntax.h"

namespace plumbline::model::megatron {
namespace {

constexpr int deepest_command = 60;
constexpr const char* not_read = "write it otherwise in a copy, or let --execute run the script";
constexpr std::array<std::string_view, 10> closers = {"then", "elif", "else", "fi", "do",
                                                      "done", "esac", "}",    "]]", "in"};

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

class ScriptParser {
 public:
  ScriptParser(const Letters& text, const std::string& path) : text_(text), path_(path), scan_(text) {}

  Result<Syntax> run() {
    out_.commands = list();
    if (!error_ && at_ < text_.size()) fail(at_, fmt::format("'{}' closes nothing", found()), "");
    if (error_) return tl::unexpected(*error_);
    return std::move(out_);
  }

 private:
  char symbol(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead].symbol : '\0'; }
  int line() const { return text_.empty() ? 0 : text_[std::min(at_, text_.size() - 1)].line; }

  std::string written(std::size_t first) const {
    std::string text = text_of(slice(text_, first, at_));
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
    return text;
  }

  void fail(std::size_t at, std::string message, std::string hint) {
    if (!error_)
      error_ = Error{ErrorKind::input, std::move(message), path_, at < text_.size() ? text_[at].line : line(), "",
                     std::move(hint)};
    at_ = text_.size();
  }

  std::string found() {
    const std::string word = peek();
    return word.empty() ? std::string(1, symbol()) : word;
  }

  // Skips blanks, continued lines and comments.
  void skip_blanks() {
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

  void skip_comment() {
    const bool whole_line = at_ == 0 || text_[at_ - 1].symbol == '\n';
    const std::size_t first = ++at_;
    while (at_ < text_.size() && symbol() != '\n') ++at_;
    if (whole_line && at_ > first) out_.comments.push_back(slice(text_, first, at_));
  }

  void new_line() {
    ++at_;
    for (const auto& [index, mark] : std::exchange(pending_, {}))
      out_.documents[index].text = here_lines(text_, at_, mark);
  }

  void skip_lines() {
    for (skip_blanks(); at_ < text_.size() && symbol() == '\n'; skip_blanks()) new_line();
  }

  // Returns the word ahead where it has no quotes or expansions.
  std::string peek() {
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

  bool take(std::string_view word) {
    if (peek() != word) return false;
    at_ += word.size();
    return true;
  }

  bool take_symbols(std::string_view symbols) {
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbol(i) != symbols[i]) return false;
    at_ += symbols.size();
    return true;
  }

  void expect(std::string_view word, std::string_view of, int from) {
    skip_lines();
    if (error_ || take(word)) return;
    fail(at_,
         fmt::format("'{}' of line {} has no '{}'{}", of, from, word,
                     at_ < text_.size() ? fmt::format(" before '{}'", found()) : ""),
         "");
  }

  Letters raw_word() {
    const std::size_t first = at_;
    at_ = std::max(scan_.word(at_), at_ + 1);
    if (const auto open = scan_.unclosed())
      fail(*open, fmt::format("'{}' is not closed", text_[*open].symbol), "the rest of the script would be one word");
    return without_continuations(slice(text_, first, std::min(std::max(at_, first), text_.size())));
  }

  void redirections(Node& node) {
    for (skip_blanks(); !error_ && redirection(node); skip_blanks()) {
    }
  }

  // Skips a redirection; a here-document or a here-string is kept.
  bool redirection(Node& node) {
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

  bool at_list_end() {
    if (at_ >= text_.size() || symbol() == ')' || (symbol() == ';' && (symbol(1) == ';' || symbol(1) == '&')))
      return true;
    const std::string word = peek();
    return std::ranges::find(closers, word) != closers.end() && word != "in";
  }

  std::vector<Node> list() {
    std::vector<Node> nodes;
    while (!error_) {
      skip_lines();
      if ((symbol() == ';' && symbol(1) != ';' && symbol(1) != '&') || symbol() == '&') {
        ++at_;
        continue;
      }
      if (at_list_end()) break;
      nodes.push_back(chain());
    }
    return nodes;
  }

  Node chain() {
    const std::size_t first = at_;
    Node node{.kind = NodeKind::chain, .line = line()};
    node.parts.push_back(pipeline());
    for (skip_blanks(); !error_; skip_blanks()) {
      const bool success = take_symbols("&&");
      if (!success && !take_symbols("||")) break;
      node.on_success.push_back(success);
      skip_lines();
      node.parts.push_back(pipeline());
    }
    node.text = written(first);
    return node.parts.size() == 1 ? Node(std::move(node.parts.front())) : node;
  }

  Node pipeline() {
    skip_blanks();
    const std::size_t first = at_;
    Node node{.kind = NodeKind::pipeline, .line = line()};
    while (take("!")) {
      node.inverted = !node.inverted;
      skip_blanks();
    }
    if (take("time")) skip_blanks();
    node.parts.push_back(command());
    for (skip_blanks(); symbol() == '|' && symbol(1) != '|' && !error_; skip_blanks()) {
      at_ += symbol(1) == '&' ? 2 : 1;
      skip_lines();
      node.parts.push_back(command());
    }
    node.text = written(first);
    return node.parts.size() == 1 && !node.inverted ? Node(std::move(node.parts.front())) : node;
  }

  Node command() {
    skip_blanks();
    if (++depth_ > deepest_command) fail(at_, "commands are nested too deep", "");
    const std::size_t first = at_;
    Node node{.line = line()};
    if (!error_) fill(node);
    if (node.text.empty()) node.text = written(first);
    --depth_;
    return node;
  }

  void fill(Node& node) {
    const std::string word = peek();
    if (symbol() == '(') return brackets(node);
    if (std::ranges::find(closers, word) != closers.end() && word != "in")
      return fail(at_, fmt::format("'{}' closes nothing", word), "");
    if (word == "if") return branch(node);
    if (word == "case") return selection(node);
    if (word == "while" || word == "until") return loop(node);
    if (word == "for") return each(node);
    if (word == "select" || word == "coproc") return fail(at_, fmt::format("'{}' is not read", word), not_read);
    if (word == "{") return group(node);
    if (word == "[[") return condition(node);
    if (word == "function") {
      take(word);
      skip_blanks();
      return function(node, raw_word());
    }
    simple(node);
  }

  void branch(Node& node) {
    node.kind = NodeKind::branch;
    const int from = line();
    take("if");
    bool otherwise = false;
    while (!error_) {
      Clause clause;
      if (!otherwise) {
        clause.text = condition_list(clause.condition);
        expect("then", "if", from);
      }
      clause.body = list();
      node.clauses.push_back(std::move(clause));
      if (otherwise || (!take("elif") && !(otherwise = take("else")))) break;
    }
    expect("fi", "if", from);
    redirections(node);
  }

  std::string condition_list(std::vector<Node>& nodes) {
    skip_blanks();
    const std::size_t first = at_;
    nodes = list();
    std::string text = written(first);
    while (text.ends_with(';') || text.ends_with('\n')) text.pop_back();
    return text;
  }

  void loop(Node& node) {
    node.kind = NodeKind::loop;
    const int from = line();
    node.inverted = peek() == "until";
    at_ += 5;
    Clause clause;
    clause.text = condition_list(clause.condition);
    body(node, std::move(clause), "while", from);
  }

  void body(Node& node, Clause clause, std::string_view of, int from) {
    expect("do", of, from);
    clause.body = list();
    expect("done", of, from);
    node.clauses.push_back(std::move(clause));
    redirections(node);
  }

  void each(Node& node) {
    node.kind = NodeKind::each;
    const int from = line();
    const std::size_t first = at_;
    at_ += peek().size();
    skip_blanks();
    if (symbol() == '(') return fail(at_, "'for (( ))' is not read", not_read);
    node.words.push_back(raw_word());
    skip_lines();
    node.all_parameters = !take("in");
    if (!node.all_parameters) words_of_line(node);
    node.text = written(first);
    skip_blanks();
    if (symbol() == ';') ++at_;
    body(node, {}, "for", from);
  }

  void words_of_line(Node& node) {
    for (skip_blanks(); at_ < text_.size() && !ends_command(symbol()) && !error_; skip_blanks())
      node.words.push_back(raw_word());
  }

  // Reads (( ... )) and returns what is in it; empty where the brackets are not closed as a pair.
  Letters double_brackets() {
    const std::size_t first = at_;
    at_ = scan_.brackets(at_, '(', ')');
    if (const auto open = scan_.unclosed()) fail(*open, "'(' is not closed", "");
    if (error_ || at_ < first + 4) return {};
    return slice(text_, first + 2, at_ - 2);
  }

  void brackets(Node& node) {
    const std::size_t first = at_;
    const int from = line();
    if (symbol(1) == '(') {
      const std::size_t end = Scan(text_).brackets(at_, '(', ')');
      if (end >= first + 4 && end <= text_.size() && text_[end - 2].symbol == ')') {
        node.kind = NodeKind::arithmetic;
        node.words.push_back(double_brackets());
        return redirections(node);
      }
    }
    ++at_;
    node.kind = NodeKind::subshell;
    node.clauses.push_back({.body = list()});
    skip_lines();
    if (error_) return;
    if (symbol() != ')') return fail(first, fmt::format("'(' of line {} is not closed", from), "");
    ++at_;
    redirections(node);
  }

  void group(Node& node) {
    node.kind = NodeKind::group;
    const int from = line();
    take("{");
    node.clauses.push_back({.body = list()});
    expect("}", "{", from);
    redirections(node);
  }

  void selection(Node& node) {
    node.kind = NodeKind::selection;
    const int from = line();
    const std::size_t first = at_;
    take("case");
    skip_blanks();
    node.words.push_back(raw_word());
    node.text = written(first);
    expect("in", "case", from);
    for (skip_lines(); !error_ && peek() != "esac"; skip_lines()) {
      if (at_ >= text_.size()) return expect("esac", "case", from);
      node.clauses.push_back(case_clause(from));
    }
    expect("esac", "case", from);
    redirections(node);
  }

  Clause case_clause(int from) {
    Clause clause;
    const std::size_t first = at_;
    if (symbol() == '(') ++at_;
    for (skip_blanks(); !error_; skip_blanks()) {
      clause.patterns.push_back(raw_word());
      skip_blanks();
      if (symbol() == ')') break;
      if (symbol() != '|') {
        fail(first, fmt::format("a pattern of 'case' of line {} has no ')'", from), "");
        break;
      }
      ++at_;
    }
    clause.text = written(first);
    if (!error_) ++at_;
    clause.body = list();
    const bool falls = symbol(1) == '&' || (symbol(1) == ';' && symbol(2) == '&');
    if (symbol() == ';' && falls) fail(at_, "a 'case' that goes on with its next clause is not read", not_read);
    while (symbol() == ';' || symbol() == '&') ++at_;
    return clause;
  }

  // Reads [[ ... ]] as words; ( ) ! && || < > are words of their own.
  void condition(Node& node) {
    node.kind = NodeKind::condition;
    const std::size_t first = at_;
    const int from = line();
    take("[[");
    bool pattern = false;
    for (skip_lines(); !error_ && !take("]]"); skip_lines()) {
      if (at_ >= text_.size()) return fail(first, fmt::format("'[[' of line {} has no ']]'", from), "");
      Letters word = condition_word(pattern);
      pattern = text_of(word) == "=~";
      node.words.push_back(std::move(word));
    }
    node.text = written(first);
    redirections(node);
  }

  Letters condition_word(bool pattern) {
    const std::size_t first = at_;
    if (pattern) {  // brackets and | belong to the expression
      while (at_ < text_.size() && !is_blank(symbol()) && symbol() != '\n')
        at_ = symbol() == '"' || symbol() == '\'' || symbol() == '$' ? scan_.word(at_) : at_ + 1;
      if (const auto open = scan_.unclosed()) fail(*open, "a quote is not closed", "");
      return slice(text_, first, std::min(at_, text_.size()));
    }
    if (!take_symbols("&&") && !take_symbols("||")) {
      if (std::string_view("()<>;&|").find(symbol()) == std::string_view::npos) return raw_word();
      ++at_;
    }
    return slice(text_, first, at_);
  }

  void function(Node& node, Letters name) {
    node.kind = NodeKind::function;
    node.words.push_back(std::move(name));
    skip_blanks();
    if (symbol() == '(') ++at_;
    skip_blanks();
    if (symbol() == ')') ++at_;
    skip_lines();
    Clause clause;
    if (!error_) clause.body.push_back(command());
    node.clauses.push_back(std::move(clause));
  }

  void simple(Node& node) {
    for (skip_blanks(); at_ < text_.size() && !error_; skip_blanks()) {
      if (redirection(node)) continue;
      if (symbol() == '(' && node.words.size() == 1) {
        const std::size_t open = at_++;
        skip_blanks();
        if (symbol() != ')') return fail(open, "'(' is no part of a command", "");
        ++at_;
        return function_of(node);
      }
      if (symbol() == '(') return fail(at_, "'(' is no part of a command", "");
      if (ends_command(symbol())) return;
      node.words.push_back(raw_word());
    }
  }
  void function_of(Node& node) {
    Letters name = std::move(node.words.front());
    node.words.clear();
    function(node, std::move(name));
  }

  const Letters& text_;
  std::string path_;
  Scan scan_;
  Syntax out_;
  std::size_t at_ = 0;
  std::vector<std::pair<std::size_t, std::string>> pending_;  // here-documents that begin after this line
  std::optional<Error> error_;
  int depth_ = 0;
};

}  // namespace

Result<Syntax> parse_script(const Letters& text, const std::string& path) { return ScriptParser(text, path).run(); }

}  // namespace plumbline::model::megatron
