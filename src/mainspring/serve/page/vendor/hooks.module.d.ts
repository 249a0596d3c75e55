// What the page uses of Preact's hooks, for `tsc`; browsers never ask for it.
export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(run: () => void | (() => void), on?: readonly any[]): void;
export function useLayoutEffect(run: () => void | (() => void), on?: readonly any[]): void;
export function useMemo<T>(make: () => T, on: readonly any[]): T;
export function useRef<T>(first: T): { current: T };
export function useReducer<S, A>(reduce: (state: S, action: A) => S, first: S): [S, (action: A) => void];
