// Results as one page: the template that reports/web makes, with the results as data that its script draws. The page
// loads nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "reports/text/step/sections.h"
#include "reports/trace/trace.h"

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

// What only the pages of steps carry, next to the JSON of their result: timelines with every span, compact enough for
// hundreds of thousands of them.

// Returns a JSON object with
//   timelines  of the subjects that have spans: label, names of ranks, spans, kernels and counters;
//   published  figures that others published, next to the predicted ones.
// `packed` of a timeline is base64 of gzip of integers: for each column the values of all spans, in the order of
// `columns`, then for each counter its times and the values of its series. Each integer is stored as its difference to
// the one before it in the same column, in LEB128 whose lowest bit is the sign. Times are whole nanoseconds; both ends
// of a span are cut, as in a trace.
std::string step_page_data(const std::vector<TraceSubject>& subjects, const std::vector<Comparison>& published);

}  // namespace plumbline::reports
