// The report as one self-contained HTML page. (Being built.)
#include "experiments/report.h"

namespace longshot {

std::string report_html(const Report& report) {
  return "<!doctype html><meta charset=utf-8><title>" + report.title + "</title><pre>" + report_markdown(report) +
         "</pre>\n";
}

}  // namespace longshot
