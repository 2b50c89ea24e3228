// Results as one page: the template that reports/web makes, with the results as data that its script draws. The page
// loads nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::reports {

// One result of a page.
struct PageResult {
  std::string json;        // what --json writes: a document with `plumbline.output`
  std::string extra = {};  // a JSON object of what only pages carry, such as spans; empty: nothing
  std::string name = {};   // of its file; empty: the page was made with the result
};

// Where a page comes from.
struct PageOrigin {
  std::string command;   // as a shell takes it
  std::string revision;  // of the sources; may be empty
  std::string date;      // UTC; the only line of a page that differs between equal inputs
};

// Returns the page. No text of a result can end its data.
std::string page_html(const std::vector<PageResult>& results, const PageOrigin& origin);

// A predictor for a page.
struct PageEngine {
  std::string script;   // of playground/wasm, which runs
  std::string module;   // WebAssembly
  std::string shipped;  // JSON: what a reader can choose (Shipped in reports/web/src/playground/protocol.ts)
};

// Returns the page that predicts by itself. Fails (input) where the script cannot stand in a page.
model::Result<std::string> playground_html(const PageEngine& engine);

// Reads a stored result for a page. Fails (input) for a text that is no JSON document of this command.
model::Result<PageResult> read_page_result(std::string text, const std::string& path);

}  // namespace plumbline::reports
