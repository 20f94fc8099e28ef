//! Values that many have in common: each is held once, for as long as anyone has it.

/// Values by number, with the number of those that have each.
#[derive(Debug)]
pub(super) struct SharedValues<T> {
    values: Vec<Option<T>>,
    users: Vec<u32>,
    free: Vec<u32>,
}

impl<T> Default for SharedValues<T> {
    fn default() -> Self {
        SharedValues { values: Vec::new(), users: Vec::new(), free: Vec::new() }
    }
}

impl<T> SharedValues<T> {
    /// Adds a value, which nobody has yet; returns its number.
    pub(super) fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.values[number as usize] = Some(value);
            return number;
        }
        self.values.push(Some(value));
        self.users.push(0);
        u32::try_from(self.values.len() - 1).expect("no more values than inodes")
    }

    /// Returns a value that somebody has.
    pub(super) fn get(&self, number: u32) -> &T {
        self.find(number).expect("somebody has it")
    }

    /// Returns the value with a number, if there is one.
    pub(super) fn find(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    /// Returns the values with the highest numbers, at most `most` of them, with their numbers.
    pub(super) fn last(&self, most: usize) -> impl Iterator<Item = (u32, &T)> {
        let first = self.values.len().saturating_sub(most);
        let numbers = (0u32..).skip(first).zip(&self.values[first..]);
        numbers.filter_map(|(number, value)| Some((number, value.as_ref()?)))
    }

    /// Returns all values, each with the number of those that have it.
    pub(super) fn all(&self) -> impl Iterator<Item = (&T, u32)> {
        let counted = self.values.iter().zip(&self.users);
        counted.filter_map(|(value, users)| Some((value.as_ref()?, *users)))
    }

    /// Counts one more who has a value.
    pub(super) fn share(&mut self, number: u32) {
        self.users[number as usize] += 1;
    }

    /// Counts one less who has a value; returns the value if nobody has it any more.
    pub(super) fn leave(&mut self, number: u32) -> Option<T> {
        let users = &mut self.users[number as usize];
        *users = users.saturating_sub(1);
        if *users > 0 {
            return None;
        }
        self.free.push(number);
        self.values[number as usize].take()
    }
}
