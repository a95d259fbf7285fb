// The HTML page: self-contained by its text, and, where a Chromium is installed, as a browser sees
// it.
#include <cmath>

#include "experiments/report.h"
#include "tests/catch.h"
#include "tests/experiments/made_results.h"
#include "tests/experiments/program.h"

using namespace longshot;
using namespace longshot_test;

namespace {

// Six encodings, three seeds, many lengths: what a study looks like.
Report realistic(const Folder& folder) {
  const char* encodings[] = {"none", "one_hot", "sinusoidal", "learned", "rope", "alibi"};
  for (int e = 0; e < 6; ++e) {
    for (int seed = 1; seed <= 3; ++seed) {
      Result result = {encodings[e], seed, e == 0 ? 0.7 : 0.999, {}};
      for (const int64_t length : {5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200}) {
        const double kept = length <= 20 ? 1 : std::exp(-double(length - 20) / (20.0 * (e + seed)));
        result.scores.push_back({length, 0.5 + 0.499 * kept});
      }
      write_result(folder, result);
    }
  }
  return gather_report({folder.path()});
}

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const Outcome found = shell(std::string("command -v ") + name);
    if (found.code == 0) return found.out.substr(0, found.out.find('\n'));
  }
  return "";
}

}  // namespace

TEST_CASE("the page is complete in itself and says what it shows") {
  const Folder folder;
  const std::string page = report_html(realistic(folder));
  for (const char* outside : {"http:", "https:", "<script", "src=", "@import", "url(", "<link"})
    CHECK(page.find(outside) == std::string::npos);
  for (const char* word : {"training lengths", "chance", "Sampling error", "fails beyond",
                           "not fitted", "training loss", "standard deviation", "run folder",
                           "prefers-color-scheme:dark", "@media print", "reverse_string"})
    CHECK_THAT(page, ContainsSubstring(word));
  for (const char* encoding : {"none", "one_hot", "sinusoidal", "learned", "rope", "alibi"})
    CHECK_THAT(page, ContainsSubstring(std::string("<td>") + encoding + "</td>"));
}

TEST_CASE("the page lists the values of a number by size") {
  const Folder folder;
  for (const int seed : {1, 9, 10})  // by name 10 comes before 9
    write_result(folder, {"rope", seed, 1, {{40, 0.5}}});
  CHECK_THAT(report_html(gather_report({folder.path()})),
             ContainsSubstring("<b>seed</b>: 1, 9, 10"));
}

TEST_CASE("names from outside cannot break out of the page") {
  const Folder folder;
  Result result = {"rope", 1, 1, {{40, 0.5}}};
  result.study = "<script>alert(1)</script>";
  write_result(folder, result);
  const std::string page = report_html(gather_report({folder.path()}));
  CHECK(page.find("<script") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("&lt;script&gt;"));
}

TEST_CASE("the page in a browser") {
  const std::string chromium = browser();
  if (chromium.empty()) {
    WARN(
        "no Chromium is installed: the page was not looked at in a browser (apt-get install "
        "chromium)");
    return;
  }
  const Folder folder, pages;
  pages.write("report.html", report_html(realistic(folder)));
  // A frame of a phone's width round the page; what is found in it is written into the outer
  // document.
  pages.write("frame.html",
              R"html(<!doctype html><body><iframe id=f width=360 height=800 style='border:0'
src='report.html'></iframe><pre id=o></pre><script>
onload = () => {
  const w = f.contentWindow, d = f.contentDocument;
  const box = (e) => e.getBoundingClientRect();
  const inside = [...d.querySelectorAll('.chart')].every((c) => [...c.querySelectorAll('text')].every(
    (t) => box(t).left >= box(c).left - 1 && box(t).right <= box(c).right + 1 &&
           box(t).top >= box(c).top - 1 && box(t).bottom <= box(c).bottom + 1));
  const overlaps = (list) => list.some((a, i) => list.slice(i + 1).some((b) =>
    box(a).left < box(b).right && box(b).left < box(a).right && box(a).top < box(b).bottom && box(b).top < box(a).bottom));
  o.textContent = JSON.stringify({
    width: d.documentElement.clientWidth, fits: d.documentElement.scrollWidth <= d.documentElement.clientWidth,
    requests: w.performance.getEntriesByType('resource').length,
    charts: d.querySelectorAll('svg.chart').length,
    inside: inside,
    outside: [...d.querySelectorAll('.chart')].flatMap((c) => [...c.querySelectorAll('text')].filter(
      (t) => box(t).left < box(c).left - 1 || box(t).right > box(c).right + 1 || box(t).bottom > box(c).bottom + 1 || box(t).top < box(c).top - 1).map((t) => t.textContent)),
    overlap: [...d.querySelectorAll('.chart')].some((c) => overlaps([...c.querySelectorAll('.tick')])),
    background: w.getComputedStyle(d.body).backgroundColor,
    ink: w.getComputedStyle(d.body).color});
};
</script></body>)html");
  const std::string common =
      chromium + " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=" +
      (pages / "profile") +
      " --allow-file-access-from-files --hide-scrollbars --enable-logging=stderr";
  const auto look = [&](const std::string& options) {
    return shell("timeout 60 " + common + " " + options);
  };
  const std::string frame = "file://" + (pages / "frame.html");
  for (const bool dark : {false, true}) {
    const Outcome seen =
        look(std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1") +
             " --virtual-time-budget=3000 --dump-dom " + frame);
    if (seen.code != 0 || seen.out.find("\"width\"") == std::string::npos) {
      WARN("this Chromium does not run here (exit code "
           << seen.code << "): the page was not looked at in a browser");
      return;
    }
    const size_t at = seen.out.find("<pre");
    const std::string found = seen.out.substr(at, seen.out.find("</pre>") - at);
    CHECK_THAT(found,
               ContainsSubstring("\"width\":360,\"fits\":true,"));  // nothing to scroll sideways
    CHECK_THAT(found, ContainsSubstring("\"requests\":0,"));
    CHECK_THAT(found, ContainsSubstring("\"charts\":2,"));
    CHECK_THAT(found, ContainsSubstring("\"inside\":true,"));
    CHECK_THAT(found, ContainsSubstring("\"overlap\":false,"));
    CHECK_THAT(found, ContainsSubstring(dark ? "\"background\":\"rgb(21, 24, 28)\""
                                             : "\"background\":\"rgb(255, 255, 255)\""));
    CHECK(seen.err.find("CONSOLE") == std::string::npos);
  }
  look("--print-to-pdf=" + (pages / "page.pdf") + " file://" + (pages / "report.html"));
  REQUIRE(fs::exists(pages / "page.pdf"));
  CHECK(read_file(pages / "page.pdf").substr(0, 5) == "%PDF-");
  CHECK(fs::file_size(pages / "page.pdf") > 10000);
}
