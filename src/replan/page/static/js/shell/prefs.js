// What a browser keeps of how somebody likes the page. Where nothing may be kept it begins as usual each time.

const NAME = "replan.page";

function read() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {};
  }
}

const known = read();

export const pref = (name, usual = null) => known[name] ?? usual;

export function prefer(name, value) {
  known[name] = value;
  try {
    localStorage.setItem(NAME, JSON.stringify(known));
  } catch {
    // it holds until the page is closed
  }
}

export const THEMES = ["system", "light", "dark"];

export function paint(theme) {
  const root = document.documentElement;
  if (theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
}
