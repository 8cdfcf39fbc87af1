// What components are written with.
import htm from "htm";
import { h } from "preact";

export { Component, Fragment, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

export const html = htm.bind(h);

/** Classes, those that hold. */
export const classes = (...names) => names.filter(Boolean).join(" ");

export const copyText = (text) => navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));

/** Whether keys are meant for a field. */
export const isField = (element) =>
  element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
